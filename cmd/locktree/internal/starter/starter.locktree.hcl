# The name of this stack is written into each lock and namespace that it owns. locktree leaves those
# with another name, or none, as they are, unless an import block names them.
locktree {
  stack = "STACK"
}

# The ZooKeeper servers, and the path below which locktree creates what this file declares.
# "locktree dev" serves an in-memory one on 127.0.0.1:2181.
ensemble "main" {
  servers = [SERVERS]
  root    = "/locks"

  # If locktree logs in, name admins, who may apply, and readers, who may only plan and look.
  # Only these may use locktree's own nodes, and nodes without an acl:
  # admins  = [principal.provisioner]
  # readers = [principal.ci]
  # auth "digest" {
  #   username = "provisioner"
  #   password = env("LOCKTREE_PASSWORD")
  # }
}

# Access lists say who may do what. For a first try on a server of your own,
# everybody may do everything; locktree requires that you say so. On a shared
# server, name the programs that use the locks:
#
#   principal "payments" {
#     scheme = "digest"
#     id     = file("payments.digest") # user:base64(sha1(user:password))
#   }
#   grant {
#     to    = [principal.payments]
#     allow = "lock" # queue, hold and release; not change or delete the lock
#   }
principal "everybody" {
  scheme = "world"
  id     = "anyone"
}

acl "open" {
  allow_world = true
  grant {
    to    = [principal.everybody]
    allow = "admin"
  }
}

# A namespace is a directory of locks, which inherit its acl.
namespace "example" {
  acl = acl.open

  # One holder at a time.
  mutex "nightly-report" {
    description = "Only one report runs at a time."
  }

  # Many readers or one writer.
  rwlock "catalog" {}

  # Several holders at a time. Their number can change while the semaphore is in use.
  semaphore "downloads" {
    permits = 4
  }
}

output "report_lock" {
  value = namespace.example.mutex.nightly-report.path
}
