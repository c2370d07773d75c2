variable "name" {}

namespace "locks" {
  name = var.name

  mutex "index" {}
  election "leader" {
    name = "${var.name}-leader"
  }
}
