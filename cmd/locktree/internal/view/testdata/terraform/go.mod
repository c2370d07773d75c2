module github.com/locktree/locktree/terraformjson

go 1.26.0

require github.com/hashicorp/terraform-json v0.27.2

require (
	github.com/apparentlymart/go-textseg/v15 v15.0.0 // indirect
	github.com/hashicorp/go-version v1.7.0 // indirect
	github.com/zclconf/go-cty v1.16.4 // indirect
	golang.org/x/text v0.11.0 // indirect
)
