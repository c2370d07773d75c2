# ZOOKEEPER_SERVERS, ZOOKEEPER_USERNAME and ZOOKEEPER_PASSWORD are secrets of the pipeline. A job that plans has the credentials of a reader.
locktree {
  stack = "ci-example"
}

ensemble "main" {
  root = "/locks"
}

acl "open" {
  allow_world = true # "locktree help ci-access" shows who may plan, and who may apply
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}

principal "anyone" {
  scheme = "world"
}

namespace "payments" {
  acl = acl.open

  mutex "ledger" {
    description = "One compaction of the ledger at a time."
  }
}
