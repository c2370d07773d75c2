variable "acl" {
  description = "Who may use the locks."
}

namespace "search" {
  acl = var.acl

  # The program that leads builds the index.
  election "indexer" {
    description = "Which program builds the index."
  }

  # A number of holders at a time. The number can change while it is in use.
  semaphore "crawlers" {
    permits     = 4
    max_waiters = 100
  }
}
