package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Seal returns the seal of a row after the tip: hex SHA-256 over the former seal, the position, and
// every field. A length precedes each field, so that no two rows have the same bytes.
func Seal(before store.AuditTip, e broker.AuditEntry) string {
	h := sha256.New()
	number := func(n int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	field := func(s string) {
		number(int64(len(s)))
		h.Write([]byte(s))
	}
	field("hostler audit seal v1")
	field(before.Seal)
	number(before.Position + 1)
	number(e.ID)
	number(e.At.UnixMicro())
	for _, s := range []string{e.Actor, e.Action, e.Subject, e.Reason, string(e.Before), string(e.After), e.CorrelationID, e.Code} {
		field(s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
