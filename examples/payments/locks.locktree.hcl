# To plan it, run "locktree dev" in another terminal, and here:
#
#     LOCKTREE_VAR_admin_password=secret locktree plan -var 'servers=["127.0.0.1:2181"]'

locktree {
  required_version = ">= 0.1.0"
  stack            = "payments-prod" # ownership id, written into every node
}

ensemble "main" {
  servers         = var.servers
  root            = "/platform/locks"
  session_timeout = "15s"
  connect_timeout = "5s"
  admins          = [principal.provisioner, principal.sre] # may apply, and own locktree's own nodes

  auth "digest" {
    username = "provisioner"
    password = var.admin_password
  }
}

variable "servers" {
  type    = list(string)
  default = ["zk1:2181", "zk2:2181", "zk3:2181"]
}

variable "admin_password" {
  type        = string
  sensitive   = true
  description = "Set LOCKTREE_VAR_admin_password; it is written nowhere."
}

variable "pools" {
  type = map(object({
    permits = optional(number, 1)
  }))
  default = {
    thumbnails = { permits = 8 }
    reports    = {}
  }
  validation {
    condition     = alltrue([for p in values(var.pools) : p.permits >= 1])
    error_message = "Every pool needs at least one permit."
  }
}

locals {
  pool_names = { for k, v in var.pools : k => "pool-${k}" }
}

# locktree itself. Without a grant to this principal it could not change the
# locks any more, so the plan refuses that.
principal "provisioner" {
  scheme = "digest"
  id     = digest("provisioner", var.admin_password)
}

principal "payments" {
  scheme = "digest"
  id     = trimspace(file("${path.module}/payments.digest")) # user:base64(sha1(user:password)), no password needed
}

principal "sre" {
  scheme = "digest" # with client certificates: scheme "x509", id "CN=sre,OU=ops"
  id     = "sre:sIx0SaudxVaCwWTrnOx84/Oj3II="
}

acl "lock_users" {
  grant {
    to    = [principal.provisioner, principal.sre]
    allow = "admin" # cdrwa
  }
  grant {
    to    = [principal.payments]
    allow = "lock" # crd on lock nodes, r on namespaces
  }
}

namespace "payments" {
  acl = acl.lock_users # inherited by everything inside

  mutex "ledger" {
    description = "Serialises ledger compaction."
    lifecycle { prevent_destroy = true }
  }

  rwlock "catalog" {}

  semaphore "pool" {
    for_each = var.pools
    name     = local.pool_names[each.key]
    permits  = each.value.permits
  }

  election "scheduler" {}

  namespace "batch" {
    mutex "nightly" {
      max_waiters = 20 # enforced by the library when a program joins the queue
    }
  }
}

output "ledger_path" {
  value = namespace.payments.mutex.ledger.path
}

output "pool_paths" {
  value = { for k, s in namespace.payments.semaphore.pool : k => s.path }
}
