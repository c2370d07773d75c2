# These locks follow the rules of policy.locktree.hcl. The variables are for the tests; each test breaks one rule.
locktree {
  stack = "policy"
}

ensemble "main" {
  root = "/locks" # ZOOKEEPER_SERVERS names the servers
}

variable "environment" {
  default = "production"
}

variable "owner" {
  default = "payments@example.com"
}

variable "max_hold" {
  default = "10m"
}

variable "name" {
  default = "ledger"
}

variable "protected" {
  default = true
}

variable "user" {
  type = object({ scheme = string, id = string })
  default = {
    scheme = "digest"
    id     = "payments:XGQrEgQl5xB0MIVzlXUkDPVdQMo="
  }
}

principal "payments" {
  scheme = var.user.scheme
  id     = var.user.id
}

principal "platform" {
  scheme = "digest"
  id     = "platform:sIx0SaudxVaCwWTrnOx84/Oj3II="
}

locals {
  users = [principal.payments]
  locks = [
    namespace.payments.mutex.ledger,
    namespace.payments.semaphore.workers,
  ]
}

acl "payments" {
  allow_world   = true # the language then accepts the world; the policy does not
  allow_lockout = true # no client of the example connects as platform
  grant {
    to    = [principal.platform]
    allow = "admin"
  }
  grant {
    to    = local.users
    allow = "lock"
  }
}

namespace "payments" {
  acl   = acl.payments
  owner = var.owner

  mutex "ledger" {
    name     = var.name
    max_hold = var.max_hold
    lifecycle { prevent_destroy = var.protected }
  }

  semaphore "workers" {
    permits  = 3
    max_hold = "1h"
    lifecycle { prevent_destroy = true }
  }
}
