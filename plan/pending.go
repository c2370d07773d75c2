package plan

import (
	"io"

	"github.com/locktree/locktree/recipes/kind"
)

func (c *Change) reasonText() string                               { panic("pending") }
func diff(current, desired *Tree, opts Options) *Plan              { panic("pending") }
func (p *Plan) outputsChange() bool                                { panic("pending") }
func (p *Plan) dropsIndex() bool                                   { panic("pending") }
func encodeIndex(x *Index) ([]byte, error)                         { panic("pending") }
func decodeIndex(data []byte) (*Index, error)                      { panic("pending") }
func encodeFile(f *File, w io.Writer) error                        { panic("pending") }
func decodeFile(r io.Reader) (*File, error)                        { panic("pending") }
func (p *Plan) operations(id string, acl []kind.ACL) ([]Op, error) { panic("pending") }
func (p *Plan) aclSteps() []ACLStep                                { panic("pending") }
