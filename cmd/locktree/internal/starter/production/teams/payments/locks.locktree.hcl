variable "acl" {
  description = "Who may use the locks."
}

namespace "payments" {
  acl = var.acl

  # Status, page and alerts name the owner and the runbook.
  mutex "ledger" {
    description = "One closing of the books at a time."
    owner       = "payments"
    runbook     = "https://example.com/runbooks/ledger"
  }

  # A job that a timer starts holds this lock; see "locktree exec -help".
  mutex "nightly-report" {
    description = "Only one report runs at a time."
    max_hold    = "2h"
  }
}
