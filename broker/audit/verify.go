package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// The codes of faults of the chain.
const (
	SealBroken   = "seal_broken"   // the row is not the sealed row, or not in its place
	SealMissing  = "seal_missing"  // there is no row at that position
	HeadBroken   = "head_broken"   // a head that no statement key signed
	HeadMismatch = "head_mismatch" // a signed head names another seal: the chain was rebuilt
	HeadMissing  = "head_missing"  // a row that always has a head has none: the head was removed
)

// Report is the result of Verify.
type Report struct {
	Sealed   int64  // rows with a valid seal, up to the first fault
	Unsealed int64  // rows not sealed yet
	Heads    int    // valid signed heads
	LastHead *Head  // newest valid head
	Fault    *Fault // nil: no fault
}

// Head is a signed tip of the chain.
type Head struct {
	Position int64
	Seal     string
	At       time.Time
	KeyID    string // of the statement key that signed the head
}

// Fault is the first broken or missing seal.
type Fault struct {
	Position int64
	ID       int64 // of the audit row; 0 where the row is missing
	Code     string
	Message  string
}

// Verify walks the chain from its start to its end at the time of the call. bundle knows the
// statement keys, retired keys too. A fault is in the report; an error means that the chain could
// not be read.
func Verify(ctx context.Context, db *store.DB, bundle *pki.TrustBundle) (Report, error) {
	var r Report
	// The tip is read first: rows that are sealed meanwhile are not verified.
	tip, err := db.AuditTip(ctx)
	if err != nil {
		return r, err
	}
	heads, err := db.AuditHeads(ctx)
	if err != nil {
		return r, err
	}
	if r.Unsealed, err = db.UnsealedAudit(ctx); err != nil {
		return r, err
	}
	v := verifier{report: &r, bundle: bundle, recorded: tip, end: tip.Position, heads: heads}
	for _, h := range heads {
		v.end = max(v.end, h.Position) // a tip that was set back does not hide signed rows
	}
	if err := db.WalkAudit(ctx, 1, v.row); err != nil && !errors.Is(err, errEnd) {
		return r, err
	}
	if r.Fault == nil && v.tip.Position < v.end {
		_ = v.fault(v.tip.Position+1, 0, SealMissing, "the chain ends at row %d, and once reached row %d", v.tip.Position, v.end)
	}
	return r, nil
}

// errEnd ends the walk: at a fault, or at the last row to verify.
var errEnd = errors.New("end of the walk")

type verifier struct {
	report   *Report
	bundle   *pki.TrustBundle
	recorded store.AuditTip    // the end of the chain by the database
	end      int64             // the minimum end of the chain
	heads    []store.AuditHead // still to come
	tip      store.AuditTip    // the end of the valid part
	signed   int64             // position of the newest valid head
}

func (v *verifier) row(e store.SealedEntry) error {
	if e.Position > v.end {
		return errEnd
	}
	if at := v.tip.Position; at > 0 && at%headEachOf == 0 && v.signed != at {
		return v.fault(at, 0, HeadMissing, "the signed head at row %d of the chain is missing", at)
	}
	if want := v.tip.Position + 1; e.Position != want {
		return v.fault(want, 0, SealMissing, "row %d of the chain is missing", want)
	}
	if e.Seal != Seal(v.tip, e.AuditEntry) || e.Position == v.recorded.Position && e.Seal != v.recorded.Seal {
		return v.fault(e.Position, e.ID, SealBroken, "row %d of the chain (audit id %d) was changed after it was sealed", e.Position, e.ID)
	}
	v.tip = store.AuditTip{Position: e.Position, Seal: e.Seal}
	v.report.Sealed++
	for len(v.heads) > 0 && v.heads[0].Position <= e.Position {
		h := v.heads[0]
		v.heads = v.heads[1:]
		if err := v.head(h); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) head(h store.AuditHead) error {
	head, err := VerifyHead(h.Envelope, v.bundle)
	if err != nil {
		return v.fault(h.Position, 0, HeadBroken, "the signed head at row %d does not verify: %v", h.Position, err)
	}
	if head.Position != v.tip.Position || head.Seal != v.tip.Seal {
		return v.fault(h.Position, 0, HeadMismatch, "the head signed for row %d names another seal than row %d of the chain has",
			head.Position, v.tip.Position)
	}
	v.report.Heads++
	v.signed = head.Position
	v.report.LastHead = &head
	return nil
}

func (v *verifier) fault(position, id int64, code, format string, args ...any) error {
	v.report.Fault = &Fault{Position: position, ID: id, Code: code, Message: fmt.Sprintf(format, args...)}
	return errEnd
}
