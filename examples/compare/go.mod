module github.com/locktree/locktree/examples/compare

go 1.26.0

replace github.com/locktree/locktree => ../..

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/go-zookeeper/zk v1.0.4
	github.com/locktree/locktree v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
