# The locks of the program beside this file; see README.md.
locktree {
  stack = "monitoring"
}

variable "servers" {
  type    = list(string)
  default = ["127.0.0.1:2181"]
}

ensemble "local" {
  servers = var.servers
}

principal "anyone" {
  scheme = "world"
}

acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}

namespace "shop" {
  acl   = acl.open
  owner = "shop@example.com"

  mutex "ledger" {
    description = "One booking at a time."
    max_hold    = "10s"
    max_wait    = "1m"
  }

  semaphore "api" {
    description = "So many calls of the payment provider at a time."
    permits     = 2
  }

  election "mailer" {
    description = "One program sends the mails."
  }
}
