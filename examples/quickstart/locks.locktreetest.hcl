# What must stay true of these locks: "locktree test" plans and applies them on an embedded server.

run "names" {
  command = plan

  assert {
    condition     = output.ledger == "/locks/payments/ledger"
    error_message = "Programs take the ledger at /locks/payments/ledger, not at ${output.ledger}."
  }
  assert {
    condition     = namespace.payments.semaphore.workers.permits >= 2
    error_message = "One worker alone does not keep up with the payments."
  }
}

run "first" {
  assert {
    condition     = plan.add == 5 && plan.destroy == 0
    error_message = "A first apply creates the namespace and its four locks."
  }
}

run "again" {
  command = plan

  assert {
    condition     = alltrue([for c in values(plan.changes) : c.action == "no-op"])
    error_message = "A second apply changes nothing."
  }
  assert {
    condition     = output.ledger == run.first.ledger
    error_message = "The ledger has moved."
  }
}
