# The locks of the six programs beside this file. Apply it, then run them:
#
#   locktree dev &                            # or ZOOKEEPER_SERVERS=zk1:2181,zk2:2181
#   locktree -chdir=examples/recipes apply
#   go run ./examples/recipes/worker          # and ratelimit, cache, transfer, turns, orders
#
# Their package locks is generated from it:
#
#   locktree -chdir=examples/recipes generate go -out=locks/locks.go
locktree {
  stack = "recipes"
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

namespace "recipes" {
  acl = acl.open

  election "worker" {
    description = "One worker at a time does the jobs."
  }

  semaphore "api" {
    description = "So many calls of the other side's API at a time; change it and apply while they run."
    permits     = 3
  }

  rwlock "prices" {
    description = "Readers of the cached prices, and whoever renews them."
  }

  mutex "account" {
    for_each    = toset(["alice", "bob", "carol"])
    description = "A transfer holds the locks of both its accounts."
  }

  mutex "turns" {
    description = "Everybody's turn, in the order of arrival."
  }

  keyed "order" {
    description = "One worker at a time charges an order."
    kind        = "mutex"
  }
}
