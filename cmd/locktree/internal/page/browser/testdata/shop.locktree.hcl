locktree {
  stack = "shop"
}

variable "servers" {
  type = list(string)
}

ensemble "main" {
  servers = var.servers
  root    = "/locks"
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
  acl     = acl.open
  owner   = "shop@example.com"
  runbook = "https://wiki.example.com/shop/locks"

  mutex "ledger" {
    max_hold = "10m"
    max_wait = "1m"
  }

  mutex "stock" {
    max_wait = "30s"
  }

  mutex "nightly" {}

  mutex "settlement-of-the-day-before" {}

  mutex "archive" {}

  rwlock "prices" {}

  semaphore "printers" {
    permits = 3
  }

  election "mailer" {}
}
