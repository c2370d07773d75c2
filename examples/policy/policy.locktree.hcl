# Five rules as checks. Every plan evaluates them, and only warns. "locktree plan -json" lists the failed ones; policy.jq refuses.
# A check sees only what the configuration names: locks in local.locks, principals with rights in local.users, and var.protected.
check "owner" {
  assert {
    condition     = alltrue([for l in local.locks : l.owner != ""])
    error_message = "Each lock needs an owner, or the namespace around it does."
  }
}

check "no_world_access" {
  assert {
    condition     = alltrue([for p in local.users : p.scheme != "world"])
    error_message = "The world gets no rights."
  }
}

check "max_hold" {
  assert {
    condition     = alltrue([for l in local.locks : l.max_hold != ""])
    error_message = "Each lock needs max_hold, the longest time that anybody should hold it."
  }
}

check "names" {
  assert {
    condition     = alltrue([for l in local.locks : can(regex("^(/[a-z][a-z0-9-]*)+$", l.path))])
    error_message = "Names are lower-case letters, digits and hyphens, and begin with a letter."
  }
}

check "protected" {
  assert {
    condition     = var.environment != "production" || var.protected
    error_message = "Locks in production are protected with prevent_destroy."
  }
}
