# Rules for whoever changes the locks. "locktree test" needs no server and no secret.

variables {
  admin_password = "of the embedded server"
}

run "names" {
  command = plan

  assert {
    condition     = output.ledger_path == "/platform/locks/payments/ledger"
    error_message = "Programs take the ledger at /platform/locks/payments/ledger, not at ${output.ledger_path}."
  }
  assert {
    condition     = alltrue([for path in values(output.pool_paths) : startswith(path, "/platform/locks/payments/pool-")])
    error_message = "The paths of pools begin with pool-."
  }
}

run "empty_pool" {
  variables {
    pools = { thumbnails = { permits = 0 } }
  }
  expect_failures = [var.pools]
}

run "first" {
  assert {
    condition     = plan.destroy == 0 && plan.changes["namespace.payments.mutex.ledger"].action == "create"
    error_message = "The first apply creates the locks."
  }
}

run "more_reports" {
  variables {
    pools = { thumbnails = { permits = 8 }, reports = { permits = 4 } }
  }
  assert {
    condition     = [for a, c in plan.changes : a if c.action != "no-op"] == ["namespace.payments.semaphore.pool[\"reports\"]"]
    error_message = "A pool grows in place, and nothing else changes."
  }
}

run "the_ledger_stays" {
  plan_options {
    destroy = true
  }
  expect_failures = [namespace.payments.mutex.ledger]
}
