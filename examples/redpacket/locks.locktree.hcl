locktree {
  stack = "redpacket"
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

namespace "redpacket" {
  acl = acl.open
  mutex "lock" {
    description = "Guards the pot: who holds it may take money out."
  }
}
