package certificate

import (
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Report is an authentic statement with remarks. Exactly one of Clean, Receipt and Attestation is
// set.
type Report struct {
	Kind        string       `json:"kind"`   // a predicate type
	Digest      string       `json:"digest"` // sha256:… of the file
	KeyID       string       `json:"key_id"` // of the statement key
	IssuedAt    time.Time    `json:"issued_at"`
	JudgedAsOf  time.Time    `json:"judged_as_of"` // the time that decides whether the statement is stale
	VerifiedAt  time.Time    `json:"verified_at"`  // when the check was made
	Remarks     []Remark     `json:"remarks"`      // empty: no objection
	Clean       *Clean       `json:"certificate,omitempty"`
	Receipt     *Receipt     `json:"receipt,omitempty"`
	Attestation *Attestation `json:"attestation,omitempty"`
}

// Holds reports whether the statement has no remark against it.
func (r *Report) Holds() bool { return len(r.Remarks) == 0 }

// Backdated reports whether the file was judged as of another time than the time of the check.
func (r *Report) Backdated() bool { return !r.JudgedAsOf.Equal(r.VerifiedAt) }

// VerifyAsOf is Verify as of another time than now: the result that Verify would have given then.
func VerifyAsOf(file []byte, trust *pki.TrustBundle, asOf, now time.Time) (*Report, error) {
	r, err := Verify(file, trust, asOf)
	if err == nil {
		r.VerifiedAt = now.UTC()
	}
	return r, err
}

// Sentence sums the report up in a few words.
func (r *Report) Sentence() string {
	switch {
	case r.Attestation != nil:
		return "a person's statement, which no machine has signed"
	case r.Holds() && r.Receipt != nil:
		return "clean: meets the operator's policy"
	case r.Holds():
		return "clean: meets the policy"
	case r.CleanWhenIssued() && r.Receipt != nil:
		return "clean when issued, counted as clean until " + stamp(r.validUntil())
	case r.CleanWhenIssued():
		return "clean when issued, good for handing out until " + stamp(r.validUntil())
	case r.Receipt != nil:
		return "not clean: falls short of the operator's policy"
	}
	return "not clean: falls short of the policy"
}

// Verify checks that a statement key of trust signed the file, in canonical form, with proofs
// that hold, and adds the remarks as of now. An error means that nothing in the file can be
// believed; its code says why.
func Verify(file []byte, trust *pki.TrustBundle, now time.Time) (*Report, error) {
	env, err := pki.ParseStatement(file)
	if err != nil {
		return nil, err
	}
	r := &Report{Digest: pki.Digest(file), JudgedAsOf: now.UTC(), VerifiedAt: now.UTC(), Remarks: []Remark{}}
	var stated predicate
	_, r.KeyID, err = trust.VerifyStatement(env, func(payload []byte) (time.Time, error) {
		if stated, err = r.read(payload); err != nil {
			return time.Time{}, err
		}
		return stated.issuedAt(), nil
	})
	if err != nil {
		return nil, err
	}
	r.Kind, r.IssuedAt = stated.kind(), stated.issuedAt()
	if r.IssuedAt.After(now.Add(taskcatalog.ClockSkew)) {
		return nil,
			refuse(CodeIssuedLater, "cannot accept certificate: it was issued at %s, and this machine's clock says %s (compare the clocks)",
				stamp(r.IssuedAt), stamp(now))
	}
	if err := stated.check(); err != nil {
		return nil, err
	}
	r.remark(now)
	return r, nil
}

// read decodes an authentic payload.
func (r *Report) read(payload []byte) (predicate, error) {
	kind, err := kindOf(payload)
	if err != nil {
		return nil, err
	}
	switch kind {
	case PredicateClean:
		r.Clean, err = open[*Clean](payload)
		return r.Clean, err
	case PredicateReceipt:
		r.Receipt, err = open[*Receipt](payload)
		return r.Receipt, err
	case PredicateAttestation:
		r.Attestation, err = open[*Attestation](payload)
		return r.Attestation, err
	}
	return nil, refuse(CodeWrongStatement, "cannot read certificate: the file is a statement of another kind, %q",
		taskcatalog.Clean(kind, 200))
}

// remark collects the objections to an authentic statement.
func (r *Report) remark(now time.Time) {
	switch {
	case r.Clean != nil:
		r.Remarks = append(r.Remarks, r.Clean.Verdict.Shortfalls...)
	case r.Receipt != nil:
		r.Remarks = append(r.Remarks, r.Receipt.Verdict.Shortfalls...)
	}
	if until := r.validUntil(); !until.IsZero() && now.After(until) {
		r.Remarks = append(r.Remarks, Remark{
			Code: CodeStale,
			Message: "it says how the machine was at " + stamp(r.IssuedAt) + " and was good until " + stamp(until) +
				" (what happened since is not in it)",
		})
	}
}

// validUntil is when the document becomes stale; zero: never.
func (r *Report) validUntil() time.Time {
	switch {
	case r.Clean != nil:
		return r.Clean.ValidUntil
	case r.Receipt != nil:
		return r.Receipt.ValidUntil
	}
	return time.Time{}
}
