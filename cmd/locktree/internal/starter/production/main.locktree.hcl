# The name of this stack is written into each lock and namespace that it owns. locktree leaves those
# with another name, or none, as they are, unless an import block names them.
locktree {
  stack = "STACK"
}

# locktree logs in with a client certificate. People and the pipeline that applies use the
# certificate of the provisioner, and the pipeline that plans uses that of CI.
# LOCKTREE_VAR_certificates names the directory.
variable "certificates" {
  type        = string
  default     = "/etc/locktree/tls"
  description = "Directory of ca.pem, cert.pem and key.pem."
}

ensemble "main" {
  servers = [SERVERS]
  root    = "/locks"

  # Admins may apply; readers may only plan and look. Only these may use locktree's own nodes.
  admins  = [principal.provisioner]
  readers = [principal.ci, principal.operators]

  tls {
    ca_file   = "${var.certificates}/ca.pem"
    cert_file = "${var.certificates}/cert.pem"
    key_file  = "${var.certificates}/key.pem"
  }
}

# An id is a certificate's subject, as "openssl x509 -noout -subject -nameopt RFC2253" shows it.
principal "provisioner" {
  scheme = "x509"
  id     = "CN=locktree-provisioner,O=Example"
}

principal "ci" {
  scheme = "x509"
  id     = "CN=locktree-ci,O=Example"
}

principal "operators" {
  scheme = "x509"
  id     = "CN=operators,O=Example"
}

principal "payments" {
  scheme = "x509"
  id     = "CN=payments,O=Example"
}

principal "search" {
  scheme = "x509"
  id     = "CN=search,O=Example"
}

# A team's programs queue, hold and release; they cannot change or delete a lock. CI and the
# operators see who holds and who waits.
acl "payments" {
  grant {
    to    = [principal.provisioner]
    allow = "admin"
  }
  grant {
    to    = [principal.payments]
    allow = "lock"
  }
  grant {
    to    = [principal.ci, principal.operators]
    allow = "observe"
  }
}

acl "search" {
  grant {
    to    = [principal.provisioner]
    allow = "admin"
  }
  grant {
    to    = [principal.search]
    allow = "lock"
  }
  grant {
    to    = [principal.ci, principal.operators]
    allow = "observe"
  }
}

# Each team has a module: it owns the files in its directory, and decides on its locks. This file
# decides who may use them.
module "payments" {
  source = "./teams/payments"
  acl    = acl.payments
}

module "search" {
  source = "./teams/search"
  acl    = acl.search
}
