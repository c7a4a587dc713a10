package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

const (
	sealEvery  = 100 * time.Millisecond // short: each turn has little to do, and other transactions wait for the turn
	sealBatch  = 128                    // rows in one transaction
	headEvery  = time.Minute
	headEachOf = 1000 // rows
)

// Sealer seals rows and signs heads. The leader runs it.
type Sealer struct {
	DB *store.DB
	// Signer returns the present statement key.
	Signer func(ctx context.Context) (pki.Signer, error)
	// Keep stores a signed head outside the database and the log; nil: nothing is stored.
	Keep func(store.AuditHead) error
	Log  *zap.Logger // receives the heads
}

// Run seals within a second until ctx ends. A head is signed each minute with sealed rows,
// and at every 1,000 rows. A failed turn is retried at the next turn; the rows wait.
func (s *Sealer) Run(ctx context.Context) {
	periodic.Work{Every: sealEvery, AtOnce: true, Turn: s.Turn, Log: s.Log, Cannot: "cannot seal the audit log", Grave: true}.Run(ctx)
}

// Turn seals the unsealed rows and signs the due heads.
func (s *Sealer) Turn(ctx context.Context) error {
	last, err := s.DB.LastAuditHead(ctx)
	if err != nil {
		return err
	}
	for {
		// A batch ends where a head is due.
		tip, err := s.DB.AuditTip(ctx)
		if err != nil {
			return err
		}
		if tip.Position > last.Position && tip.Position%headEachOf == 0 {
			// The rows were sealed, and then the broker crashed or the key did not answer. The head
			// that Verify requires is signed before the chain goes on.
			if last, err = s.head(ctx, tip); err != nil {
				return err
			}
		}
		room := headEachOf - tip.Position%headEachOf
		sealed, tip, err := s.DB.SealAudit(ctx, int(min(sealBatch, room)), Seal)
		if err != nil {
			return err
		}
		full := sealed > 0 && tip.Position%headEachOf == 0
		late := sealed == 0 && tip.Position > last.Position && s.DB.Now().Sub(last.At) >= headEvery
		if full || late {
			if last, err = s.head(ctx, tip); err != nil {
				return err
			}
		}
		if sealed == 0 {
			return nil
		}
	}
}

func (s *Sealer) head(ctx context.Context, tip store.AuditTip) (store.AuditHead, error) {
	signer, err := s.Signer(ctx)
	if err != nil {
		return store.AuditHead{}, err
	}
	head, err := SignHead(tip, s.DB.Now(), signer)
	if err != nil {
		return head, err
	}
	if err := s.DB.SaveAuditHead(ctx, head); err != nil {
		return head, err
	}
	if s.Keep != nil {
		// Sealing goes on: the head is in the database and in the log.
		if err := s.Keep(head); err != nil {
			s.Log.Error("cannot store an audit head outside the database", zap.Error(err))
		}
	}
	s.Log.Info("audit head", zap.Int64("position", tip.Position), zap.String("seal", tip.Seal), zap.ByteString("envelope", head.Envelope))
	return head, nil
}

// Seal returns the seal of a row after the tip: hex SHA-256 over the former seal, the position, and
// every field. A length precedes each field, so that no two rows have the same bytes. A row without an origin has
// the seal that earlier releases compute; an origin that was added or taken away changes the form of the seal.
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
	var origin []string
	if e.Source == "" && e.UserAgent == "" && e.Site == "" {
		field("hostler audit seal v1")
	} else {
		field("hostler audit seal v2")
		origin = []string{e.Source, e.UserAgent, e.Site}
	}
	field(before.Seal)
	number(before.Position + 1)
	number(e.ID)
	number(e.At.UnixMicro())
	for _, s := range []string{e.Actor, e.Action, e.Subject, e.Reason, string(e.Before), string(e.After), e.CorrelationID, e.Code} {
		field(s)
	}
	for _, s := range origin {
		field(s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
