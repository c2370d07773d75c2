locktree {
  stack = "quickstart" # the owner of these locks; written into every node
}

variable "servers" {
  type    = list(string)
  default = ["127.0.0.1:2181"] # the address of `locktree dev`
}

ensemble "local" {
  servers = var.servers
  root    = "/locks"
}

principal "anyone" {
  scheme = "world"
}

acl "open" {
  allow_world = true # fine on a laptop; examples/payments shows real access lists
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}

// readme: begin
namespace "payments" {
  acl = acl.open

  mutex "ledger" { description = "One compaction of the ledger at a time." }
  rwlock "catalog" {}
  semaphore "workers" { permits = 3 }
  election "scheduler" {}
}
// readme: end

output "ledger" {
  value = namespace.payments.mutex.ledger.path
}
