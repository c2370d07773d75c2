# The locks of the programs beside this file. Apply this file, then run the programs:
#
#   locktree dev &                            # or ZOOKEEPER_SERVERS=zk1:2181,zk2:2181
#   locktree -chdir=examples/recipes apply
#   go run ./examples/recipes/worker          # and ratelimit, cache, transfer, turns, orders
#
# locktree generates their package locks from this file:
#
#   locktree -chdir=examples/recipes generate go -out=locks/locks.go
locktree {
  stack = "recipes"
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

namespace "recipes" {
  acl = acl.open

  // mutex: begin
  mutex "turns" {
    description = "Each program's turn, in the order of arrival."
    max_hold    = "10m"
  }
  // mutex: end

  // rwlock: begin
  rwlock "prices" {
    description = "Many programs read the cached prices; one renews them."
  }
  // rwlock: end

  // semaphore: begin
  semaphore "api" {
    description = "How many calls of the partner's API run at a time."
    permits     = 3
  }
  // semaphore: end

  // election: begin
  election "worker" {
    description = "One worker at a time does the jobs."
  }
  // election: end

  // multilock: begin
  mutex "account" {
    for_each    = toset(["alice", "bob", "carol"])
    description = "A transfer holds the locks of both its accounts."
  }
  // multilock: end

  // keyed: begin
  keyed "order" {
    description = "One worker at a time charges an order."
    kind        = "mutex"
  }
  // keyed: end

  // once: begin
  once "report" {
    description = "The nightly report."
    schedule    = "0 3 * * *" # as in cron
    timezone    = "Europe/Berlin"
    catch_up    = "6h" # how late a slot may start
    success     = "end"
  }
  // once: end
}
