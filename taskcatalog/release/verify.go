package release

// Open returns the manifest of a release. The bytes must have the digest, and a release key in
// force must have signed it. Codes: release_digest_mismatch, release_signature_invalid,
// release_manifest_invalid.
func Open(raw []byte, signatures []Signature, keys Keys, digest string) (*Manifest, error) {
	if len(raw) > MaxManifest {
		return nil, badManifest("it has %d bytes, at most %d", len(raw), MaxManifest)
	}
	if got := Digest(raw); got != digest {
		return nil, refuse(CodeDigestMismatch, "cannot use the release's manifest: its digest is %s, not %s", got, quote(digest))
	}
	id, err := signer(signatures, keys, digest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	m.KeyID = id
	return m, nil
}

// ReadStatement returns the statement of the release if the bytes match the manifest. Codes:
// release_digest_mismatch, release_statement_invalid.
func (m *Manifest) ReadStatement(raw []byte) (*Statement, error) {
	if got := Digest(raw); got != m.Statement.Digest || int64(len(raw)) != m.Statement.Size {
		return nil, refuse(CodeDigestMismatch, "cannot use the release's statement: its digest is %s, and the manifest names %s", got,
			m.Statement.Digest)
	}
	return ParseStatement(raw)
}

// Verify combines Open and ReadStatement.
func Verify(manifest, statement []byte, signatures []Signature, keys Keys, digest string) (*Manifest, *Statement, error) {
	m, err := Open(manifest, signatures, keys, digest)
	if err != nil {
		return nil, nil, err
	}
	s, err := m.ReadStatement(statement)
	return m, s, err
}

// Demand lists the requirements on a release for a node.
type Demand struct {
	Version  string // the requested version
	OS, Arch string
	Floor    string // the lowest permitted version; empty: any
	State    int    // form of the agent's present state; 0: none
	Protocol int    // the highest protocol that the broker speaks; 0: not checked
}

// Meets returns the reason why a release cannot be installed on a node; nil: it can. Codes:
// release_version_wrong, release_arch_wrong, release_below_floor, release_state_unreadable,
// release_protocol_wrong.
func (s *Statement) Meets(d Demand) error {
	switch {
	case s.Version != d.Version:
		return refuse(CodeVersionWrong, "cannot use the release: it is version %s, and %s was asked for", s.Version, quote(d.Version))
	case s.OS != d.OS || s.Arch != d.Arch:
		return refuse(CodeArchWrong, "cannot use release %s: it is for %s/%s, and the node is %s/%s", s.Version, s.OS, s.Arch, d.OS, d.Arch)
	case d.Floor != "" && !ValidVersion(d.Floor):
		return refuse(CodeBelowFloor, "cannot use release %s: the floor %s is no version", s.Version, quote(d.Floor))
	case d.Floor != "" && Compare(s.Version, d.Floor) < 0:
		return refuse(CodeBelowFloor, "cannot use release %s: it is below the floor %s (ask for a rollback, with a reason)", s.Version,
			d.Floor)
	case d.State != 0 && !s.StateSchema.Reads(d.State):
		return refuse(CodeStateUnreadable, "cannot use release %s: it reads the agent's state of forms %d to %d, and the node has form %d",
			s.Version, s.StateSchema.ReadsMin, s.StateSchema.ReadsMax, d.State)
	case d.Protocol != 0 && s.Protocol > d.Protocol:
		return refuse(CodeProtocolWrong, "cannot use release %s: it speaks protocol %d, and the broker %d", s.Version, s.Protocol,
			d.Protocol)
	}
	return nil
}
