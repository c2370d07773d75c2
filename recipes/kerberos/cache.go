package kerberos

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// credential is one entry of a credential cache.
type credential struct {
	server                      principal
	key                         types.EncryptionKey
	auth, start, end, renewTill time.Time
	ticket                      []byte
}

// parseCache reads a credential cache in a file, version 3 or 4 (no other version was written since 2000). The parser of gokrb5
// trusts the counts in a file and allocates as much memory, so a damaged file could end the program.
func parseCache(content []byte) (whose principal, all []credential, err error) {
	d := wire.Decoder{B: content}
	version := string(d.Take(2))
	if version != "\x05\x03" && version != "\x05\x04" {
		return principal{}, nil, errors.New("it does not begin as one of version 3 or 4")
	}
	if version == "\x05\x04" {
		d.Take(short(&d)) // skip the header, which has the offset to the KDC's clock: servers compare the clocks anyway
	}
	whose = cachedPrincipal(&d)
	for len(d.B) > 0 {
		var c credential
		cachedPrincipal(&d) // the client, which is the same in all entries
		c.server = cachedPrincipal(&d)
		c.key.KeyType = int32(short(&d)) //nolint:gosec // 16 bits
		if version == "\x05\x03" {
			short(&d) // version 3 has the type twice
		}
		c.key.KeyValue = d.Buffer()
		for _, t := range []*time.Time{&c.auth, &c.start, &c.end, &c.renewTill} {
			*t = time.Unix(int64(uint32(d.Int32())), 0) //nolint:gosec // right beyond 2038, too
		}
		d.Take(1 + 4) // whether two users share the session key, then flags
		for range 2 { // addresses, authorization data
			for range max(0, d.Count(6)) {
				d.Take(2)
				d.Take(int(d.Int32()))
			}
		}
		c.ticket = d.Buffer()
		d.Take(int(d.Int32())) // a second ticket
		all = append(all, c)
	}
	if d.Bad {
		return principal{}, nil, errors.New("it ends in the middle of a ticket")
	}
	// Kinit also keeps settings in the cache, as tickets for a realm that does not exist.
	setting := func(c credential) bool { return strings.HasPrefix(c.server.realm, "X-CACHECONF") }
	return whose, slices.DeleteFunc(all, setting), nil
}

func short(d *wire.Decoder) int {
	if b := d.Take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func cachedPrincipal(d *wire.Decoder) (p principal) {
	d.Take(4) // the type of name
	n := max(0, d.Count(4))
	p.realm = string(d.Take(int(d.Int32())))
	for range n {
		p.parts = append(p.parts, string(d.Take(int(d.Int32()))))
	}
	return p
}
