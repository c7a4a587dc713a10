package download

import (
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"hash"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
)

// Checkpoint keeps the state of a pull. Save returns when the state is on the disk.
type Checkpoint interface {
	Load() ([]byte, error) // nil: nothing was saved
	Save(state []byte) error
}

// state is what a checkpoint holds.
type state struct {
	Digest string `json:"digest"` // of the wanted content
	// Inode is of the file that has the data: another file under the same name has other data. The number
	// of its device may change with a restart of the machine.
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
	// Total is the length of the content; -1: not known.
	Total int64 `json:"total"`
	// Validator names the version of the content at the source: a strong ETag, or a Last-Modified.
	Validator string `json:"validator,omitempty"`
	Hash      []byte `json:"hash"` // its state at the offset
	// Answers is how many answers have fed the hash: two may be of two contents.
	Answers int `json:"answers,omitempty"`
}

// resume returns the saved state and its hash if the state is of this content in this file.
func resume(saved []byte, digest string, info fs.FileInfo) (state, hash.Hash, bool) {
	sum := sha256.New()
	var st state
	if json.Unmarshal(saved, &st) != nil || st.Digest != digest || st.Inode != inode(info) ||
		st.Offset < 0 || st.Offset > info.Size() || st.Total < -1 || st.Total >= 0 && st.Offset > st.Total {
		return st, nil, false
	}
	if sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(st.Hash) != nil {
		return st, nil, false
	}
	if st.Offset > 0 {
		st.Answers = max(st.Answers, 1) // an earlier version did not count them
	}
	return st, sum, true
}

func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// validatorOf returns what an answer names the version of its content by; empty: nothing. A weak ETag
// names no bytes.
func validatorOf(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") && len(tag) <= 512 {
		return tag
	}
	if at := h.Get("Last-Modified"); len(at) <= 64 {
		return at
	}
	return ""
}
