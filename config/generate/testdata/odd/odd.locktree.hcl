locktree {
  stack = "odd \"names\""
}

variable "east" {}

variable "tenants" {
  type = set(string)
}

variable "size" {
  type = number
}

ensemble "east-1" {
  root = var.east
}

ensemble "west" {
  root = "/locks/west"
}

# Some labels give the same identifier, and some are names that the generated code itself uses.
namespace "type" {
  ensemble = ensemble.west

  mutex "a-b" {}
  once "nightly" {
    schedule = "0 3 * * MON-FRI"
    timezone = "Europe/Berlin"
  }
  mutex "a_b" {}
  mutex "ab" {}
  mutex "AB" {
    name = "capitals"
  }
  rwlock "same" {}
  election "same" {
    name = "same-election"
    wire = "kazoo"
  }
  mutex "__" {}
  mutex "日本" {}
  mutex "été" {}
  namespace "a-b" {
    name = "inner"
    mutex "func" {
      description = "Ends no comment: */ \"\"\" \\u002a/\nfunc init() { panic(1) }\n\n//go:embed secrets"
    }
  }
}

namespace "type-a" {
  ensemble = ensemble.west
  mutex "b" {}
}

namespace "client" {
  ensemble = ensemble.west
  owner    = "team"
  runbook  = "https://example.com/runbook"

  semaphore "pool" {
    for_each = { "" = 1, "a b" = 2, "a-b" = 5, "7" = 3, "q\"\\" = 4 }
    name     = "pool${each.value}${length(each.key)}"
    permits  = each.value
  }
  semaphore "sized" {
    permits  = var.size
    max_hold = "10m"
  }
  mutex "tenant" {
    for_each = var.tenants
    name     = "t-${each.key}-lock"
  }
  keyed "order" {
    kind   = "mutex"
    fanout = "16"
  }
  keyed "doc" {
    for_each = toset(["x", "y"])
    kind     = "rwlock"
  }
}

mutex "top" {
  ensemble = ensemble.east-1
}

module "team" {
  source   = "./team"
  for_each = toset(["search", "billing"])
  ensemble = ensemble.east-1
  name     = each.key
}

moved {
  from = namespace.client.mutex.ledger
  to   = namespace.type.mutex.books
}

moved {
  from = namespace.type.mutex.books
  to   = namespace.type.mutex.ab
}

moved {
  from = namespace.client.semaphore.small
  to   = namespace.client.semaphore.pool["7"]
}

moved {
  from = namespace.old
  to   = namespace.type
}

moved {
  from = namespace.client.mutex.sized
  to   = namespace.type.mutex.ab
}

output "path" {
  value       = namespace.type.namespace.a-b.mutex.func.path
  description = "Where it is."
}

output "seven" {
  value = 7
}

output "map" {
  value = { a = [1, "x"] }
}

output "size" {
  value = "${var.size}!"
}

output "secret" {
  value     = sensitive("swordfish")
  sensitive = true
}

output "__" {
  value = true
}
