# The configuration keeps all rules, and breaks each of them in turn. Only the check named there may fail.
run "keeps_the_rules" {
  command = plan
}

run "without_owner" {
  command = plan
  variables {
    owner = null
  }
  expect_failures = [check.owner]
}

run "the_world" {
  command = plan
  variables {
    user = { scheme = "world", id = "anyone" }
  }
  expect_failures = [check.no_world_access]
}

run "without_max_hold" {
  command = plan
  variables {
    max_hold = null
  }
  expect_failures = [check.max_hold]
}

run "a_bad_name" {
  command = plan
  variables {
    name = "Ledger_2"
  }
  expect_failures = [check.names]
}

run "not_protected" {
  command = plan
  variables {
    protected = false
  }
  expect_failures = [check.protected]
}

run "not_protected_elsewhere" {
  command = plan
  variables {
    environment = "staging"
    protected   = false
  }
}
