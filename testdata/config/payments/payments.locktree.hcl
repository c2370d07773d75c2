locktree {
  required_version = ">= 0.3.0"
  stack            = "payments-prod" # ownership id, written into every znode
}
ensemble "main" {
  servers         = ["zk1:2182", "zk2:2182", "zk3:2182"]
  root            = "/platform/locks" # prefix, applied by the tool
  session_timeout = "15s"
  connect_timeout = "5s"
  tls {
    ca_file   = "${path.module}/ca.pem"
    cert_file = "${path.module}/client.pem"
    key_file  = "${path.module}/client.key"
  }
  auth "digest" {
    username = "provisioner"
    password = var.admin_password
  }
}
variable "admin_password" {
  type      = string
  sensitive = true
}
variable "pools" {
  type = map(object({
    permits = optional(number, 1)
  }))
  default = { thumbnails = { permits = 8 }, reports = {} }
  validation {
    condition     = alltrue([for p in values(var.pools) : p.permits >= 1])
    error_message = "Every pool needs at least one permit."
  }
}
locals {
  pool_names = { for k, v in var.pools : k => "pool-${k}" }
}
principal "payments" {
  scheme = "digest"
  id     = file("${path.module}/payments.digest") # user:base64(sha1), no password needed
}
principal "sre" {
  scheme = "x509"
  id     = "CN=sre,OU=ops"
}
acl "lock_users" {
  grant {
    to    = [principal.payments]
    allow = "lock" # crd on lock nodes, r on namespaces
  }
  grant {
    to    = [principal.sre]
    allow = "admin" # cdrwa
  }
}
namespace "payments" {
  acl = acl.lock_users # inherited by everything inside unless overridden
  mutex "ledger" {
    description = "Serialises ledger compaction."
    lifecycle { prevent_destroy = true }
  }
  rwlock "catalog" { max_waiters = 100 }
  semaphore "pool" {
    for_each = var.pools
    name     = local.pool_names[each.key] # znode name; default is label or label-key
    permits  = each.value.permits
  }
  election "scheduler" {}
  namespace "batch" {
    mutex "nightly" { max_waiters = 20 } # enforced by the recipes library
  }
}
module "team" {
  source   = "./modules/team"
  for_each = toset(["search", "billing"])
  name     = each.key
  acl      = acl.lock_users
}
moved {
  from = namespace.payments.mutex.books
  to   = namespace.payments.mutex.ledger
}
import {
  to   = namespace.payments.rwlock.catalog
  path = "/curator/catalog"
}
removed {
  from = namespace.legacy
  lifecycle { destroy = false }
}
check "small_pools" {
  assert {
    condition     = sum([for s in namespace.payments.semaphore.pool : s.permits]) < 64
    error_message = "More than 64 permits in all."
  }
}
output "ledger_path" { value = namespace.payments.mutex.ledger.path }
