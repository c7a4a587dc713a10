package certificate_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Each row is a certificate with a valid signature that contradicts the node's signatures, or
// itself. Both the issuer and the verifier refuse it.
func TestACertificateSaysNoMoreThanItsProofs(t *testing.T) {
	w := newWorld(t)
	hour := func(n int) time.Time { return w.now.Add(time.Duration(n) * time.Hour) }
	report := taskcatalog.Report{Verdict: taskcatalog.VerdictClean}
	unlooked := []taskcatalog.Check{{Name: "mounts"}}
	dirty := taskcatalog.Report{
		Verdict: taskcatalog.VerdictNotClean, Checks: looked(unlooked...),
		Findings: []taskcatalog.Finding{{Check: "users", Subject: "mallory"}}, FindingsOmitted: 2,
	}
	reset := gpu("GPU-2", "1650002")
	reset.Assurance.Reset = taskcatalog.ResetRefused
	scrub := taskcatalog.GPUScrubResult{GPUs: []taskcatalog.GPUScrubbed{gpu("GPU-1", "1650001"), reset}}
	was := w.node
	was.Epoch--
	for name, row := range map[string]struct {
		change func(c *certificate.Clean)
		code   taskcatalog.Code
	}{
		"evidence of another node": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(pki.NodeIdentity{NodeID: otherNode, Epoch: 3}, "other node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil)
		}, certificate.CodeEvidenceWrongNode},
		"evidence that another node calls its own": {func(c *certificate.Clean) {
			other := w.proveAs(pki.NodeIdentity{NodeID: otherNode, Epoch: 3}, "node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil)
			other.Proof.Certificate = c.Tasks[0].Proof.Certificate
			c.Tasks[0] = other
		}, certificate.CodeEvidenceWrongNode},
		"evidence of an earlier enrolment": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(was, "old node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil)
		}, certificate.CodeEvidenceWrongEpoch},
		"evidence that says it is of an earlier enrolment": {func(c *certificate.Clean) {
			old := w.proveAs(was, "node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil)
			old.Proof.Certificate = c.Tasks[0].Proof.Certificate
			c.Tasks[0] = old
		}, certificate.CodeEvidenceWrongEpoch},
		"evidence that another node gives out as this one's": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(pki.NodeIdentity{NodeID: otherNode, Epoch: 3}, "other node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil,
				func(ev *taskcatalog.Evidence) { ev.NodeID = w.node.NodeID })
		}, certificate.CodeEvidenceWrongNode},
		"evidence that an earlier enrolment gives out as this one's": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(was, "old node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil,
				func(ev *taskcatalog.Evidence) { ev.NodeEpoch = w.node.Epoch })
		}, certificate.CodeEvidenceWrongEpoch},
		"evidence of a task of the same digest": {func(c *certificate.Clean) { c.Tasks[0].ID = "t-other" }, certificate.CodeEvidenceWrongTask},
		"evidence that ends before it begins": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(w.node, "node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil,
				func(ev *taskcatalog.Evidence) { ev.FinishedAt = ev.StartedAt.Add(-time.Second) })
		}, certificate.CodeEvidenceLate},
		"evidence by another key": {func(c *certificate.Clean) {
			other := w.proveAs(w.node, "other node", hour(-2), "t-erase", "node.disk_erase", hour(-1), report, nil)
			other.Proof.Certificate = c.Tasks[0].Proof.Certificate
			c.Tasks[0] = other
		}, certificate.CodeEvidenceWrongKey},
		"evidence by the key from before the rotation": {func(c *certificate.Clean) {
			c.Tasks[0] = w.proveAs(w.node, "node", hour(-3), "t-erase", "node.disk_erase", hour(-1), report, nil)
		}, certificate.CodeEvidenceKeyTooOld},
		"no certificate beside the evidence": {func(c *certificate.Clean) { c.Tasks[0].Proof.Certificate = []byte("none") }, certificate.CodeEvidenceWrongKey},
		"the root beside the evidence":       {func(c *certificate.Clean) { c.Tasks[0].Proof.Certificate = w.trust.Keys[0].Certificate }, certificate.CodeEvidenceWrongKey},
		"evidence of another task": {func(c *certificate.Clean) {
			c.Tasks[0].Proof, c.Tasks[0].EvidenceDigest = c.Tasks[2].Proof, c.Tasks[2].EvidenceDigest
		}, certificate.CodeEvidenceWrongTask},
		"another digest of the task":     {func(c *certificate.Clean) { c.Tasks[0].Digest = pki.Digest(nil) }, certificate.CodeEvidenceWrongTask},
		"another digest of the evidence": {func(c *certificate.Clean) { c.Tasks[0].EvidenceDigest = pki.Digest(nil) }, certificate.CodeEvidenceWrongTask},
		"a better outcome":               {func(c *certificate.Clean) { c.Tasks[0].Outcome = taskcatalog.OutcomeFailed }, certificate.CodeEvidenceWrongTask},
		"another result":                 {func(c *certificate.Clean) { c.Tasks[1].Proof.Result += " " }, certificate.CodeEvidenceWrongResult},
		"no result":                      {func(c *certificate.Clean) { c.Tasks[1].Proof.Result = "" }, certificate.CodeEvidenceWrongResult},
		"a result that is none": {func(c *certificate.Clean) {
			c.Tasks[1] = w.prove("t-scrub", "node.gpu_scrub", hour(-1), report, "words")
		}, certificate.CodeEvidenceWrongResult},
		"evidence of an earlier turnover": {func(c *certificate.Clean) {
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-5), report, nil)
		}, certificate.CodeEvidenceStale},
		"evidence from after the last look": {func(c *certificate.Clean) {
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(0), report, nil)
		}, certificate.CodeEvidenceLate},
		"a GPU that the node has not found": {func(c *certificate.Clean) { c.Devices[0].UUID = "GPU-7" }, certificate.CodeDeviceContradicted},
		"a GPU left out":                    {func(c *certificate.Clean) { c.Devices = c.Devices[1:] }, certificate.CodeDeviceContradicted},
		"a missing GPU that was found":      {func(c *certificate.Clean) { c.Devices[0].Found = false }, certificate.CodeDeviceContradicted},
		"more coverage":                     {func(c *certificate.Clean) { c.Devices[0].CoveredBytes = &total }, certificate.CodeDeviceContradicted},
		"a better reset":                    {func(c *certificate.Clean) { c.Devices[1].Reset = taskcatalog.ResetProven }, certificate.CodeDeviceContradicted},
		"a better verdict of a GPU":         {func(c *certificate.Clean) { c.Devices[1].Verdict = taskcatalog.VerdictClean }, certificate.CodeDeviceContradicted},
		"an exclusion left out":             {func(c *certificate.Clean) { c.Devices[0].Exclusions = nil }, certificate.CodeDeviceContradicted},
		"a validation that was none":        {func(c *certificate.Clean) { c.Validation.TaskID = "t-erase" }, certificate.CodeEvidenceWrongTask},
		"more checks than were made":        {func(c *certificate.Clean) { c.Validation.ChecksMade++ }, certificate.CodeVerdictUnfounded},
		"a disk by a better method":         {func(c *certificate.Clean) { c.Devices[2].Method = certificate.MethodNVMeSanitizeBlock }, certificate.CodeDeviceContradicted},
		"more of a disk": {func(c *certificate.Clean) {
			more := *c.Devices[2].CoveredBytes + 1
			c.Devices[2].CoveredBytes = &more
		}, certificate.CodeDeviceContradicted},
		"a disk better verified": {func(c *certificate.Clean) {
			d := purged()
			d.Verification = taskcatalog.OverwriteUnverified
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-1), report, erased(d))
		}, certificate.CodeDeviceContradicted},
		"a disk left out that was not erased": {func(c *certificate.Clean) {
			d := purged()
			d.Serial, d.WWN, d.Verdict, d.Method = "WD-7", "", taskcatalog.VerdictNotClean, certificate.MethodNone
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-1), report, erased(purged(), d))
		}, certificate.CodeDeviceContradicted},
		"figures of a disk that the node has not signed": {func(c *certificate.Clean) {
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-1), report, nil)
		}, certificate.CodeDeviceContradicted},
		"a disk's result of words": {func(c *certificate.Clean) {
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-1), report, "words")
		}, certificate.CodeEvidenceWrongResult},
		"a downgrade left out": {func(c *certificate.Clean) {
			d := purged()
			d.Asked, d.Method = certificate.MethodNVMeSanitizeBlock, certificate.MethodOverwrite
			c.Tasks[0] = w.prove("t-erase", "node.disk_erase", hour(-1), report, erased(d))
			c.Devices[2].Method = certificate.MethodOverwrite
		}, certificate.CodeDeviceContradicted},
		"a better verdict of the machine": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), dirty, nil)
		}, certificate.CodeVerdictUnfounded},
		"no verdict of the machine": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), taskcatalog.Report{}, nil)
		}, certificate.CodeVerdictUnfounded},
		"a check left out that was not made": {func(c *certificate.Clean) {
			unmade := taskcatalog.Report{Verdict: taskcatalog.VerdictInconclusive, Checks: dirty.Checks}
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), unmade, nil)
			c.Validation.Verdict, c.Validation.ChecksMade = taskcatalog.VerdictInconclusive, 1
		}, certificate.CodeFindingHidden},
		"a check that nothing is said of": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), taskcatalog.Report{Verdict: taskcatalog.VerdictClean, Checks: looked()[1:]}, nil)
			c.Validation.ChecksMade--
		}, certificate.CodeFindingHidden},
		"a look that looked at nothing": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), report, nil)
			c.Validation.ChecksMade = 0
		}, certificate.CodeFindingHidden},
		"a tenant that was there afterwards": {func(c *certificate.Clean) { c.Allocation.ReleasedAt = c.IssuedAt.Add(time.Second) }, certificate.CodeIncomplete},
		"a look while the tenant was there":  {func(c *certificate.Clean) { c.Allocation.ReleasedAt = hour(-1).Add(10 * time.Minute) }, certificate.CodeEvidenceStale},
		"a GPU with words that were not erased": {func(c *certificate.Clean) {
			g := gpu("GPU-1", "1650001")
			g.MismatchedWords, g.RemainingWords = &total, &total
			c.Tasks[1] = w.prove("t-scrub", "node.gpu_scrub", hour(-1), report, taskcatalog.GPUScrubResult{GPUs: []taskcatalog.GPUScrubbed{g, reset}})
		}, certificate.CodeDeviceContradicted},
		"a scrub that was not clean as a whole": {func(c *certificate.Clean) {
			c.Tasks[1] = w.prove("t-scrub", "node.gpu_scrub", hour(-1), taskcatalog.Report{Verdict: taskcatalog.VerdictNotClean}, scrub)
		}, certificate.CodeDeviceContradicted},
		"a scrub that found something": {func(c *certificate.Clean) {
			c.Tasks[1] = w.prove("t-scrub", "node.gpu_scrub", hour(-1), taskcatalog.Report{Verdict: taskcatalog.VerdictClean, FindingsOmitted: 1}, scrub)
		}, certificate.CodeDeviceContradicted},
		"a finding left out": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), dirty, nil)
			c.Validation.Verdict, c.Validation.ChecksMade, c.Validation.ChecksNotMade = taskcatalog.VerdictNotClean, 1, unlooked
		}, certificate.CodeFindingHidden},
		"findings not counted": {func(c *certificate.Clean) {
			c.Tasks[2] = w.prove("t-validate", "node.validate_clean", hour(-1), dirty, nil)
			c.Validation.Verdict, c.Validation.ChecksMade, c.Validation.ChecksNotMade = taskcatalog.VerdictNotClean, 1, unlooked
			c.Findings = dirty.Findings
		}, certificate.CodeFindingHidden},
		"no node":              {func(c *certificate.Clean) { c.Node.ID = "gpu-07" }, certificate.CodeIncomplete},
		"no policy":            {func(c *certificate.Clean) { c.Policy.Version = "" }, certificate.CodeIncomplete},
		"no least environment": {func(c *certificate.Clean) { c.Policy.Environment = "" }, certificate.CodeIncomplete},
		"no such grade":        {func(c *certificate.Clean) { c.Policy.DiskGrade = "shiny" }, certificate.CodeIncomplete},
		"no turnover's time":   {func(c *certificate.Clean) { c.Run.StartedAt = time.Time{} }, certificate.CodeIncomplete},
		"no identity's time":   {func(c *certificate.Clean) { c.Node.IdentitySince = time.Time{} }, certificate.CodeIncomplete},
		"over before it began": {func(c *certificate.Clean) { c.Run.StartedAt, c.Tasks = c.FinishedAt.Add(time.Second), c.Tasks[3:] }, certificate.CodeIncomplete},
		"an identity to come":  {func(c *certificate.Clean) { c.Node.IdentitySince, c.Tasks = c.FinishedAt.Add(time.Second), c.Tasks[3:] }, certificate.CodeIncomplete},
		"a task of no digest":  {func(c *certificate.Clean) { c.Tasks[3].Digest = "" }, certificate.CodeIncomplete},
		"a disk twice":         {func(c *certificate.Clean) { c.Devices = append(c.Devices, c.Devices[2]) }, certificate.CodeIncomplete},
		"no such environment":  {func(c *certificate.Clean) { c.Environment = "safe" }, certificate.CodeIncomplete},
		"no such mode":         {func(c *certificate.Clean) { c.Run.Mode = "storage_cleanup" }, certificate.CodeIncomplete},
		"no id":                {func(c *certificate.Clean) { c.ID = "a b" }, certificate.CodeIncomplete},
		"issued before it was": {func(c *certificate.Clean) { c.IssuedAt = hour(-2) }, certificate.CodeIncomplete},
		"good for ever":        {func(c *certificate.Clean) { c.ValidUntil = time.Time{} }, certificate.CodeIncomplete},
		"a GPU twice":          {func(c *certificate.Clean) { c.Devices[1] = c.Devices[0] }, certificate.CodeIncomplete},
		"a task twice":         {func(c *certificate.Clean) { c.Tasks[1] = c.Tasks[0] }, certificate.CodeIncomplete},
		"a device of no name":  {func(c *certificate.Clean) { c.Devices[2].Serial, c.Devices[2].UUID = "", "" }, certificate.CodeIncomplete},
		"a device of no place": {func(c *certificate.Clean) { c.Devices[3].Found, c.Devices[3].Expected = false, false }, certificate.CodeIncomplete},
		"a disk there and destroyed": {func(c *certificate.Clean) {
			c.Devices[2].Method, c.Devices[2].Attestation = certificate.MethodDestroyed, pki.Digest(nil)
		}, certificate.CodeIncomplete},
		"a disk destroyed without a witness": {func(c *certificate.Clean) {
			c.Devices[2].Method, c.Devices[2].Found = certificate.MethodDestroyed, false
		}, certificate.CodeIncomplete},
		"a missing disk that was overwritten": {func(c *certificate.Clean) {
			c.Devices[2].Attestation, c.Devices[2].Found = pki.Digest(nil), false
		}, certificate.CodeIncomplete},
		"a person without a reason": {func(c *certificate.Clean) {
			c.Overrides = []certificate.Override{{Stage: "drain_node", By: "alice"}}
		}, certificate.CodeIncomplete},
		"an acceptance without a reason": {func(c *certificate.Clean) {
			c.Downgrades = []certificate.Downgrade{{Device: "S6ABNE0T", AcceptedBy: "alice"}}
		}, certificate.CodeIncomplete},
		"600 devices": {func(c *certificate.Clean) { c.Devices = make([]certificate.Device, 600) }, pki.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			half := gpu("GPU-2", "1650002")
			half.Verdict, half.Assurance.Reset = taskcatalog.VerdictInconclusive, taskcatalog.ResetRefused
			c := w.clean(gpu("GPU-1", "1650001"), half)
			w.issue(c)
			row.change(c)
			_, err := certificate.Issue(c, w.statement)
			wantCode(t, "who issues", err, row.code)
			certificate.Complete(c)
			_, err = certificate.Verify(must(certificate.Forge(c, w.statement))(t), w.trust, w.now)
			wantCode(t, "who verifies", err, row.code)
		})
	}
}

// Issue's own additions cannot be left out by another signer.
func TestACertificateOwnsUpToWhatItIsNot(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct {
		change func(c *certificate.Clean)
		code   taskcatalog.Code
	}{
		"system RAM is covered": {func(c *certificate.Clean) {
			c.NotCovered = slices.DeleteFunc(c.NotCovered, func(n certificate.NotCovered) bool { return n.Part == "system_ram" })
		}, certificate.CodeIncomplete},
		"no word of rootkits":       {func(c *certificate.Clean) { c.Exposures = nil }, certificate.CodeIncomplete},
		"meets the policy":          {func(c *certificate.Clean) { c.Verdict.MeetsPolicy = true }, certificate.CodeVerdictUnfounded},
		"a shortfall less":          {func(c *certificate.Clean) { c.Verdict.Shortfalls = c.Verdict.Shortfalls[1:] }, certificate.CodeVerdictUnfounded},
		"another sentence about it": {func(c *certificate.Clean) { c.Verdict.Shortfalls[0].Message = "nothing" }, certificate.CodeVerdictUnfounded},
	} {
		c := w.fallen()
		w.issue(c)
		row.change(c)
		_, err := certificate.Verify(must(certificate.Forge(c, w.statement))(t), w.trust, w.now)
		wantCode(t, name, err, row.code)
	}
}

// A payload has one canonical form: the same content in another form is refused.
func TestAPayloadHasOneForm(t *testing.T) {
	w := newWorld(t)
	payload := payloadOf(t, w.issue(w.clean(gpu("GPU-1", "1"))))
	for name, row := range map[string]struct {
		old, new string
		code     taskcatalog.Code
	}{
		"white space":          {`"expected":true`, `"expected": true`, pki.CodeNotCanonical},
		"an escape":            {`"reimage"`, `"reimag\u0065"`, pki.CodeNotCanonical},
		"another time zone":    {`T11:21:00Z"`, `T12:21:00+01:00"`, pki.CodeNotCanonical},
		"more digits":          {`T11:21:00Z"`, `T11:21:00.0Z"`, pki.CodeNotCanonical},
		"a control character":  {`"gpu-07"`, `"gpu-07\u001b"`, pki.CodeNotCanonical},
		"a key that is empty":  {`"had_root":true,`, `"had_root":true,"released_by":"",`, pki.CodeMalformed},
		"an empty value":       {`"task_id":"t-validate","verdict"`, `"task_id":"t-validate","node_id":"","verdict"`, pki.CodeMalformed},
		"a key's case":         {`"site"`, `"Site"`, pki.CodeMalformed},
		"a key twice":          {`"site":"dc1"`, `"site":"dc1","site":"dc1"`, pki.CodeMalformed},
		"a list that is null":  {`"overrides":[]`, `"overrides":null`, pki.CodeNotCanonical},
		"another subject":      {`"subject":[{"name":"hostler://node/n-abc`, `"subject":[{"name":"hostler://node/n-abd`, pki.CodeNotCanonical},
		"two subjects":         {`"subject":[`, `"subject":[{"name":"","digest":{"sha256":""}},`, pki.CodeNotCanonical},
		"a float":              {`"node_epoch":3`, `"node_epoch":3.0`, pki.CodeMalformed},
		"something behind":     {payload, payload + " ", pki.CodeNotCanonical},
		"no predicate":         {payload[strings.Index(payload, `{"certificate_id"`):], "null}", pki.CodeMalformed},
		"another predicate":    {"clean-certificate/v1", "clean-certificate/v2", certificate.CodeWrongStatement},
		"a receipt":            {"clean-certificate/v1", "clean-receipt/v1", pki.CodeMalformed},
		"another in-toto":      {"in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1", certificate.CodeWrongStatement},
		"no statement at all":  {payload, "words", pki.CodeMalformed},
		"deeper than anything": {payload, strings.Repeat("[", 20000), pki.CodeMalformed},
	} {
		changed := strings.Replace(payload, row.old, row.new, 1)
		if changed == payload {
			t.Fatalf("%s changes nothing", name)
		}
		file := must(pki.SignStatement([]byte(changed), w.statement))(t)
		_, err := certificate.Verify(file, w.trust, w.now)
		wantCode(t, name, err, row.code)
	}
}

// The statement key signs audit heads as well. A certificate never passes as an audit head, nor
// the reverse.
func TestACertificateIsNoAuditHeadAndAHeadIsNone(t *testing.T) {
	w := newWorld(t)
	head := must(audit.SignHead(store.AuditTip{Position: 7, Seal: strings.Repeat("0", 64)}, w.now, w.statement))(t)
	_, err := certificate.Verify(head.Envelope, w.trust, w.now)
	wantCode(t, "an audit head", err, certificate.CodeWrongStatement)
	_, err = audit.VerifyHead(w.issue(w.clean(gpu("GPU-1", "1"))), w.trust)
	wantCode(t, "a certificate", err, taskcatalog.CodeMalformed)
}

func TestWhoMaySignACertificate(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1"))
	good := w.issue(c)
	payload := []byte(payloadOf(t, good))
	for name, row := range map[string]struct {
		file []byte
		at   time.Time
		code taskcatalog.Code
	}{
		"the task key":          {must(pki.SignStatement(payload, signerOf(t, "task", "")))(t), w.now, pki.CodeUnknownKey},
		"a key nobody knows":    {must(pki.SignStatement(payload, signerOf(t, "stranger", "")))(t), w.now, pki.CodeUnknownKey},
		"a key of another name": {must(pki.SignStatement(payload, signerOf(t, "task", w.statement.ID)))(t), w.now, pki.CodeBadSignature},
		"another payload type":  {must(pki.Sign(pki.PayloadEvidence, payload, w.statement))(t), w.now, pki.CodeWrongPayloadType},
		"a clock that is late":  {good, w.now.Add(-time.Hour), certificate.CodeIssuedLater},
		"nothing":               {nil, w.now, pki.CodeMalformed},
		"a line break":          {append(bytes.Clone(good), '\n'), w.now, pki.CodeNotCanonical},
	} {
		_, err := certificate.Verify(row.file, w.trust, row.at)
		wantCode(t, name, err, row.code)
	}
	// A retired key still counts for the time when it was in force.
	for i := range w.trust.Keys {
		w.trust.Keys[i].NotAfter = w.now
	}
	if r, err := certificate.Verify(good, w.trust, w.now.Add(24*time.Hour)); err != nil || !r.Holds() {
		t.Errorf("by a key retired since: %v", err)
	}
	for i := range w.trust.Keys {
		w.trust.Keys[i].NotAfter = w.now.Add(-2 * time.Hour)
	}
	_, err := certificate.Verify(good, w.trust, w.now)
	wantCode(t, "a key retired before", err, pki.CodeKeyNotInForce)
}

// A stale certificate gets a remark, and stays authentic.
func TestAStaleCertificateIsTold(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1"))
	file := w.issue(c)
	if r := w.verify(file); !r.Holds() {
		t.Fatal(r.Remarks)
	}
	r := must(certificate.Verify(file, w.trust, c.ValidUntil.Add(time.Second)))(t)
	if len(r.Remarks) != 1 || r.Remarks[0].Code != certificate.CodeStale || !r.CleanWhenIssued() || r.Sentence() != "clean when issued, good for handing out until 2026-03-31 12:00:00Z" {
		t.Errorf("%s: %v", r.Sentence(), r.Remarks)
	}
}

func TestAnAttestationIsAPersonsWordAndTakesAWitness(t *testing.T) {
	w := newWorld(t)
	r := w.verify(must(certificate.Attest(w.attestation(), w.statement))(t))
	if r.Attestation == nil || r.Attestation.StatementOf != "person" || !strings.Contains(r.Sentence(), "person") {
		t.Errorf("%+v", r)
	}
	for name, change := range map[string]func(a *certificate.Attestation){
		"a machine's method":    func(a *certificate.Attestation) { a.Method = certificate.MethodOverwrite },
		"no witness":            func(a *certificate.Attestation) { a.Witness = "" },
		"one's own witness":     func(a *certificate.Attestation) { a.Witness = a.By },
		"a device of no serial": func(a *certificate.Attestation) { a.Device.Serial = "" },
		"no node":               func(a *certificate.Attestation) { a.Node.ID = "" },
		"no time":               func(a *certificate.Attestation) { a.IssuedAt = time.Time{} },
	} {
		a := w.attestation()
		change(a)
		_, err := certificate.Attest(a, w.statement)
		wantCode(t, name, err, certificate.CodeIncomplete)
	}
}

// Names of parts from a node are cleaned on the way in, and the certificate holds.
func TestTextIsCleanedWhenItGoesIn(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1\x1b[2J", "1\u202e"))
	c.Findings = []taskcatalog.Finding{{Check: "users\x00", Subject: "\xff"}}
	c.Devices = append(c.Devices, certificate.Device{
		Kind: certificate.KindDisk, Serial: "S6\n", Expected: true, Method: certificate.MethodNone, Verification: "none", Verdict: taskcatalog.VerdictInconclusive,
	})
	r := w.verify(w.issue(c))
	if text := string(must(taskcatalog.Encode(r.Remarks))(t)); strings.ContainsAny(text, "\n\x00\ufffd") || !strings.Contains(text, `S6\\x0a`) {
		t.Errorf("remarks %s", text)
	}
}

func TestAReceiptThatContradictsItselfIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(r *certificate.Receipt){
		"a better verdict": func(r *certificate.Receipt) { r.Verdict.MeetsPolicy = true },
		"a worse verdict":  func(r *certificate.Receipt) { r.Verdict.Shortfalls = nil },
		"no certificate":   func(r *certificate.Receipt) { r.CertificateDigest = "c-1" },
		"no allocation":    func(r *certificate.Receipt) { r.AllocationID = "" },
		"no environment":   func(r *certificate.Receipt) { r.Environment = "" },
		"good for ever":    func(r *certificate.Receipt) { r.ValidUntil = time.Time{} },
	} {
		r := must(certificate.ReceiptOf(w.verify(w.issue(w.fallen())), w.now))(t)
		change(r)
		_, err := certificate.IssueReceipt(r, w.statement)
		wantCode(t, name, err, certificate.CodeIncomplete)
	}
}

func TestATrustFileIsReadWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	good := w.trustFile()
	if b := must(certificate.ReadTrust(good))(t); b.Version != w.trust.Version || len(b.Keys) != len(w.trust.Keys) {
		t.Errorf("read %+v", b)
	}
	twoUses := bytes.Replace(good, []byte(`"use": "statement"`), []byte(`"use": "task"`), 1)
	for name, row := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"not JSON":      {[]byte("trust bundle  version 1"), pki.CodeMalformed},
		"a certificate": {w.issue(w.clean(gpu("GPU-1", "1"))), pki.CodeMalformed},
		"keys twice":    {bytes.Replace(good, []byte("{"), []byte(`{"keys":[],`), 1), pki.CodeMalformed},
		"an id changed": {bytes.Replace(good, []byte(w.statement.ID), []byte("0000000000000000"), 1), pki.CodeMalformed},
		"too large":     {make([]byte, 1<<20+1), pki.CodeTooLarge},
		"no version":    {bytes.Replace(good, []byte(`"version": 4`), []byte(`"version": 0`), 1), pki.CodeMalformed},
		"cut off":       {good[:len(good)/2], pki.CodeMalformed},
	} {
		_, err := certificate.ReadTrust(row.raw)
		wantCode(t, name, err, row.code)
	}
	if b, err := certificate.ReadTrust(twoUses); err == nil {
		if _, ok := b.Key(pki.UseStatement, w.statement.ID, w.now); ok {
			t.Error("a task key counts as a statement key")
		}
	}
}

// payloadOf is the signed payload.
func payloadOf(t testing.TB, file []byte) string {
	t.Helper()
	var env struct{ Payload string }
	if err := json.Unmarshal(file, &env); err != nil {
		t.Fatal(err)
	}
	return string(must(base64.StdEncoding.DecodeString(env.Payload))(t))
}

func signerOf(t testing.TB, name, id string) pki.Signer {
	t.Helper()
	s := must(pki.NewSigner(key(name)))(t)
	if id != "" {
		s.ID = id
	}
	return s
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	return must(os.ReadFile("testdata/" + name))(t)
}
