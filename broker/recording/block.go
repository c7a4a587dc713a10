package recording

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Block is a stored piece of a recording.
type Block struct {
	SessionID string
	Seq       int64 // 0 is the first
	At        time.Time
	To        uint64 // bytes of the session's output in this block and the blocks before
	Lost      uint64 // lost bytes among these
	Last      bool
	Lines     []byte // of asciicast v2, each with its line end
	Prev      string // hash of the previous block; empty for the first
	Hash      string
}

// Keeper stores blocks. When Keep returns nil, the block is durable. Keeping the same block again
// is permitted; a different block in its place is refused.
type Keeper interface {
	Keep(ctx context.Context, b Block) error
}

// hash covers all fields of a block, each with its length, so that no field can be read as the end
// of another.
func (b Block) hash() string {
	h := sha256.New()
	part := func(p []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	number := func(n uint64) { part(binary.BigEndian.AppendUint64(nil, n)) }
	last := uint64(0)
	if b.Last {
		last = 1
	}
	part([]byte("hostler.recording.block.v1"))
	part([]byte(b.SessionID))
	number(uint64(b.Seq))
	number(uint64(b.At.UnixMicro()))
	number(b.To)
	number(b.Lost)
	number(last)
	part([]byte(b.Prev))
	part(b.Lines)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
