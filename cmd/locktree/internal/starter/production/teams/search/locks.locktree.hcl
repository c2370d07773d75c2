variable "acl" {
  description = "Who may use the locks."
}

namespace "search" {
  acl = var.acl

  # The program that leads builds the index.
  election "indexer" {
    description = "Which program builds the index."
  }

  # Several holders at a time. Their number can change while the semaphore is in use.
  semaphore "crawlers" {
    permits     = 4
    max_waiters = 100
  }
}
