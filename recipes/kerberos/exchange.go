package kerberos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/locktree/locktree/recipes"
)

// exchange is one login. It establishes a context (RFC 4121), and then agrees with the server that no message is wrapped (RFC
// 4752), as ZooKeeper demands. Each step puts the step that follows into next.
type exchange struct {
	t    *ticket
	auth types.Authenticator
	key  types.EncryptionKey // the key of the context: our subkey, or the server's
	next func(challenge []byte) (token []byte, done bool, err error)
}

// The context flags that we ask for (RFC 4121 section 4.1.1.1).
const (
	mutual    = 0x02
	integrity = 0x20
)

func newExchange(t *ticket) (*exchange, error) {
	switch t.key.KeyType {
	case 17, 18, 19, 20: // AES: RFC 4121 has no tokens for older types
	default:
		return nil, setupError("the KDC gave a session key of type %d, and only AES is known here: give the server's principal a key of type aes256-cts-hmac-sha1-96", t.key.KeyType)
	}
	x := &exchange{t: t}
	x.next = x.begin
	return x, nil
}

// step answers a challenge. The server may send anything, and gokrb5 may panic on it.
func (x *exchange) step(challenge []byte) (token []byte, done bool, err error) {
	err = guard(func() (err error) {
		token, done, err = x.next(challenge)
		return err
	})
	return token, done, err
}

// begin presents the ticket, with an authenticator made now.
func (x *exchange) begin([]byte) ([]byte, bool, error) {
	if now := time.Now(); !x.t.valid(now) {
		return nil, false, setupError("the ticket of %s expired on %s", x.t.client, x.t.end.UTC().Format(time.RFC3339))
	}
	auth, err := types.NewAuthenticator(x.t.client.realm, types.PrincipalName{NameType: 1, NameString: x.t.client.parts})
	if err != nil {
		return nil, false, err
	}
	kind, err := crypto.GetEtype(x.t.key.KeyType)
	if err != nil {
		return nil, false, err
	}
	if err := auth.GenerateSeqNumberAndSubKey(kind.GetETypeID(), kind.GetKeyByteSize()); err != nil {
		return nil, false, err
	}
	sum := make([]byte, 24) // length of the channel bindings, the bindings, flags
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], mutual|integrity)
	auth.Cksum = types.Checksum{CksumType: 0x8003, Checksum: sum}
	req, err := messages.NewAPReq(x.t.ticket, x.t.key, auth)
	if err != nil {
		return nil, false, err
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	body, err := req.Marshal()
	if err != nil {
		return nil, false, err
	}
	x.auth, x.key, x.next = auth, auth.SubKey, x.meet
	return frame(tokenRequest, body), false, nil
}

// meet checks that the server could read the ticket. Only the server that the ticket is for can do that.
func (x *exchange) meet(answer []byte) ([]byte, bool, error) {
	if len(answer) == 0 {
		return nil, false, fmt.Errorf("%w: the server answers a ticket with nothing: it has no login of its own (no JAAS section Server), or it accepts failed logins", recipes.ErrAuth)
	}
	id, body, err := unframe(answer)
	if err != nil {
		return nil, false, err
	}
	if id == tokenError {
		var said messages.KRBError
		if err := said.Unmarshal(body); err != nil {
			return nil, false, errors.New("the server answers a ticket with an error that cannot be read")
		}
		return nil, false, fmt.Errorf("%w: the server says: %s", recipes.ErrAuth, said.Error())
	}
	var rep messages.APRep
	if id != tokenReply {
		return nil, false, errors.New("the server does not speak Kerberos: it does not answer a ticket with a token")
	}
	if err := rep.Unmarshal(body); err != nil {
		return nil, false, errors.New("the server's answer to the ticket cannot be read")
	}
	plain, err := crypto.DecryptEncPart(rep.EncPart, x.t.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return nil, false, fmt.Errorf("%w: the server cannot prove that the ticket is for it: another program answers in its place", recipes.ErrAuth)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return nil, false, errors.New("the server's answer to the ticket cannot be read")
	}
	if !part.CTime.Equal(x.auth.CTime.Truncate(time.Second)) || part.Cusec != x.auth.Cusec {
		return nil, false, fmt.Errorf("%w: the server's answer is to another ticket: another program repeats an earlier answer", recipes.ErrAuth)
	}
	if len(part.Subkey.KeyValue) > 0 {
		x.key = part.Subkey
	}
	x.next = x.agree
	return []byte{}, false, nil
}

// agree chooses "no security layer", the only choice that ZooKeeper offers, and asks for no other name than the ticket's.
func (x *exchange) agree(offer []byte) ([]byte, bool, error) {
	says, err := x.unwrap(offer)
	if err != nil {
		return nil, false, err
	}
	if len(says) != 4 || says[0]&1 == 0 {
		return nil, false, fmt.Errorf("the server insists on a security layer (% x), which ZooKeeper never uses", says)
	}
	token := gssapi.WrapToken{SndSeqNum: uint64(x.auth.SeqNumber), Payload: []byte{1, 0, 0, 0}} //nolint:gosec // 30 bits
	if x.key.KeyType != x.auth.SubKey.KeyType || !bytes.Equal(x.key.KeyValue, x.auth.SubKey.KeyValue) {
		token.Flags = acceptorSubkey
	}
	if err := token.SetCheckSum(x.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, false, err
	}
	token.EC = uint16(len(token.CheckSum)) //nolint:gosec // 12 to 24
	out, err := token.Marshal()
	x.next = func(rest []byte) ([]byte, bool, error) {
		if len(rest) > 0 {
			return nil, false, errors.New("the server goes on when the login is over")
		}
		return nil, true, nil
	}
	return out, false, err
}

const acceptorSubkey = 0x04

// unwrap checks a message of the server (RFC 4121 section 4.2.6.2) and returns its content. The content is signed, not encrypted.
func (x *exchange) unwrap(message []byte) ([]byte, error) {
	var token gssapi.WrapToken
	if len(message) >= gssapi.HdrLen { // undo the rotation, which the signature does not cover
		rest := message[gssapi.HdrLen:]
		if n := int(binary.BigEndian.Uint16(message[6:])); n > 0 && len(rest) > 0 {
			n %= len(rest)
			message = append(append(bytes.Clone(message[:gssapi.HdrLen]), rest[n:]...), rest[:n]...)
		}
	}
	if err := token.Unmarshal(message, true); err != nil {
		return nil, errors.New("the server's offer of security layers cannot be read")
	}
	if ok, err := token.Verify(x.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil || !ok {
		return nil, fmt.Errorf("%w: the server's offer of security layers is not signed with the key that only it has", recipes.ErrAuth)
	}
	return token.Payload, nil
}

// The kinds of tokens of RFC 4121 section 4.1.
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

// mechanism is Kerberos' object identifier, 1.2.840.113554.1.2.2, in DER.
var mechanism = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// frame is the token of RFC 2743 section 3.1.
func frame(id uint16, body []byte) []byte {
	inner := append(binary.BigEndian.AppendUint16(bytes.Clone(mechanism), id), body...)
	out := []byte{0x60}
	switch n := len(inner); {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 0x10000:
		out = binary.BigEndian.AppendUint16(append(out, 0x82), uint16(n)) //nolint:gosec // it fits
	default:
		out = binary.BigEndian.AppendUint32(append(out, 0x84), uint32(n)) //nolint:gosec // a ticket is no longer
	}
	return append(out, inner...)
}

// unframe takes apart a token of the form that frame makes.
func unframe(token []byte) (id uint16, body []byte, err error) {
	broken := errors.New("the server does not speak Kerberos: its answer is no token of Kerberos")
	if len(token) < 2 || token[0] != 0x60 {
		return 0, nil, broken
	}
	n, rest := int(token[1]), token[2:]
	if n >= 0x80 {
		size := n & 0x7f
		if size < 1 || size > 4 || len(rest) < size {
			return 0, nil, broken
		}
		n = 0
		for _, b := range rest[:size] {
			n = n<<8 | int(b)
		}
		rest = rest[size:]
	}
	if n != len(rest) || !bytes.HasPrefix(rest, mechanism) || n < len(mechanism)+2 {
		return 0, nil, broken
	}
	rest = rest[len(mechanism):]
	return binary.BigEndian.Uint16(rest), rest[2:], nil
}
