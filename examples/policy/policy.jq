# The five rules of policy.locktree.hcl, for all locks that exist after a plan, also unchanged ones and ones in no list:
#
#   locktree plan -out=locks.ltplan && locktree show -json locks.ltplan | jq -r --arg environment production -f policy.jq
#
# It prints nothing if all rules hold. Otherwise it prints a line for each breach, and jq exits with 1.
def world: any(.acl[], (.contender_acl // [])[]; startswith("world:"));

[
  .resource_changes[]
  | select(.type != "namespace")
  | .address as $address
  | .change.after // empty
  | (select(.owner == "") | "\($address): owner: nobody is responsible"),
    (select(world) | "\($address): world: everybody has rights: \(.acl | join(", "))"),
    (select(.max_hold == "") | "\($address): max_hold: no longest time is declared"),
    (select(.path | test("^(/[a-z][a-z0-9-]*)+$") | not) | "\($address): names: \(.path) is not lower-case letters, digits and hyphens"),
    (select($environment == "production" and (.prevent_destroy | not)) | "\($address): protected: prevent_destroy is not set")
]
| if length > 0 then "\(join("\n"))\n" | halt_error(1) else empty end
