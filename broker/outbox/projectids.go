package outbox

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

const (
	tagSize  = aes.BlockSize
	bodySize = 16 // position and salt, 8 bytes each
)

// ProjectIDs turns positions into the ids that a project sees, and back. A position would tell a
// project how much happens elsewhere. An id tells nothing: it is a position that is encrypted for
// the project, with the key of all brokers.
type ProjectIDs struct {
	tags, bodies []byte // keys
}

// NewProjectIDs returns the ids of a project, by the key of all brokers.
func NewProjectIDs(key []byte, projectID string) ProjectIDs {
	return ProjectIDs{tags: derived(key, "hostler project event tag\x00"+projectID), bodies: derived(key, "hostler project event id\x00"+projectID)}
}

// Event is the id of the event at a position. It is the same each time that the event is sent.
func (p ProjectIDs) Event(position int64) string { return p.seal(position, 0) }

// Place is an id for a position at which the project may have no event. It differs from call to
// call, so that two of one position and two of different positions look alike.
func (p ProjectIDs) Place(position int64) string {
	var salt [8]byte
	_, _ = rand.Read(salt[:])                                       // never fails
	return p.seal(position, binary.BigEndian.Uint64(salt[:])|1<<63) // never an event's
}

// Position is the position of an id; false: it is no id of this project.
func (p ProjectIDs) Position(id string) (position int64, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(raw) != tagSize+bodySize {
		return 0, false
	}
	body := p.stream(raw[:tagSize], raw[tagSize:])
	if !hmac.Equal(p.tag(body), raw[:tagSize]) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(body)), true //nolint:gosec // as it was sealed
}

// seal encrypts deterministically: the tag of the text is also the initial counter of its
// encryption (SIV).
func (p ProjectIDs) seal(position int64, salt uint64) string {
	body := binary.BigEndian.AppendUint64(nil, uint64(position)) //nolint:gosec // positions are never negative
	body = binary.BigEndian.AppendUint64(body, salt)
	tag := p.tag(body)
	return base64.RawURLEncoding.EncodeToString(append(tag, p.stream(tag, body)...))
}

func (p ProjectIDs) tag(body []byte) []byte { return derived(p.tags, string(body))[:tagSize:tagSize] }

// stream encrypts or decrypts.
func (p ProjectIDs) stream(tag, text []byte) []byte {
	block, err := aes.NewCipher(p.bodies)
	if err != nil {
		panic(err) // the key has the size of a key
	}
	out := make([]byte, len(text))
	cipher.NewCTR(block, tag).XORKeyStream(out, text)
	return out
}

func derived(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
