variable "name" {
  type = string
}
variable "acl" {}
namespace "team" {
  name = "team-${var.name}"
  acl  = var.acl
  mutex "deploy" {}
}
output "deploy" { value = namespace.team.mutex.deploy.path }
