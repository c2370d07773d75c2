package generate

import (
	"io/fs"

	"github.com/hashicorp/hcl/v2"
)

// LoadFS is [Load] on a file system that holds every module.
func LoadFS(fsys fs.FS) (*Code, hcl.Diagnostics) {
	return load(".", "", func(sub string) (fs.FS, error) { return fs.Sub(fsys, sub) })
}
