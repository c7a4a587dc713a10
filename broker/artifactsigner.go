package broker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// ArtifactSigner is a signer whose signatures of artifacts the broker believes: the owner of a key, or
// an identity that a certificate authority vouches for. Artifacts of the source need a signature from
// then on, whatever the policy of operations says.
type ArtifactSigner struct {
	Name string
	// Source is a registry or a source of files, with or without a path: oci:registry.example/models,
	// s3:models/public. The signer signs what lies there or below it.
	Source string
	Key    string // PEM of a public key; empty: an identity signs
	Issuer string // of the identity: the address of the OpenID Connect provider
	// Subject is the identity itself, and SubjectPattern a pattern of all of it. One of them is set.
	Subject, SubjectPattern string
	// TrustedRoot is Sigstore's trusted_root.json: the certificate authorities, transparency logs and
	// timestamp authorities. With a key it is optional, and then the log must have the signature.
	TrustedRoot string

	SetBy, Reason string
	SetAt         time.Time
}

// signedSources are the kinds of sources whose signatures are verified.
var signedSources = []string{"oci", "s3", "gcs", "huggingface", "https_signed"}

const (
	maxSignerText  = 1024
	maxTrustedRoot = 64 << 10
	maxSignerKey   = 4 << 10
)

// SignerTrust is a signer's record in short: what a verified signature is held against later.
type SignerTrust struct {
	Name, Source string
	// Trust and Root are those of ArtifactSigner.
	Trust, Root string
}

// Trust is the digest of who is believed. It changes with the source, the key, the identity, and when a
// trusted root is added or taken away. A renewed trusted root leaves it as it is.
func (s ArtifactSigner) Trust() string {
	root := ""
	if s.TrustedRoot != "" {
		root = "has a trusted root"
	}
	raw, _ := json.Marshal([]string{s.Source, s.Key, s.Issuer, s.Subject, s.SubjectPattern, root})
	return digestOf(raw)
}

// KeyDigest is the digest of the public key in DER, as openssl pkey -pubin -outform DER writes it; empty: an identity signs.
func (s ArtifactSigner) KeyDigest() string {
	block, _ := pem.Decode([]byte(s.Key))
	if block == nil {
		return ""
	}
	return digestOf(block.Bytes)
}

// Root is the digest of the trusted root; empty: there is none.
func (s ArtifactSigner) Root() string {
	if s.TrustedRoot == "" {
		return ""
	}
	return digestOf([]byte(s.TrustedRoot))
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// signer is a signer's record, whole or in short.
type signer interface{ place() (source, name string) }

func (s ArtifactSigner) place() (source, name string) { return signedSource(s.Source), s.Name }

func (s SignerTrust) place() (source, name string) { return signedSource(s.Source), s.Name }

// signedSource is one spelling of a source for all that lead to the same files: nobody gets around a signer by
// another one. Hugging Face finds a repository in any case, and https has a port of its own.
func signedSource(source string) string {
	kind, path, _ := strings.Cut(source, ":")
	switch kind {
	case "huggingface":
		return strings.ToLower(source)
	case "https_signed":
		host, below, more := strings.Cut(path, "/")
		source = kind + ":" + strings.TrimSuffix(strings.ToLower(host), ":443")
		if more {
			source += "/" + below
		}
		return source
	}
	return taskcatalog.CanonicalSource(source)
}

// Pattern is the pattern of the identity's whole text. Code: artifact_signer_invalid.
func (s ArtifactSigner) Pattern() (*regexp.Regexp, error) {
	text := s.SubjectPattern
	if text == "" {
		text = regexp.QuoteMeta(s.Subject)
	}
	if _, err := regexp.Compile(text); err != nil { // before it stands in parentheses, which it could close
		return nil, s.invalid("the pattern of the subject cannot be read")
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}

// Check refuses a signer that is not complete, or says two things. It reads neither the key nor the
// trusted root. Code: artifact_signer_invalid.
func (s ArtifactSigner) Check() error {
	kind, path, _ := strings.Cut(s.Source, ":")
	fault := taskcatalog.SourceListFault(s.Source)
	issuer, err := url.Parse(s.Issuer)
	plain := func(text string) bool {
		return len(text) <= maxSignerText && taskcatalog.Clean(text, maxSignerText) == text
	}
	switch {
	case !sourceCredentialName.MatchString(s.Name):
		return s.invalid("a name has a-z, 0-9 and '-', 63 at most")
	case !slices.Contains(signedSources, kind) || path == "":
		return s.invalid("the source is not oci:REGISTRY[/PATH], or PREFIX of files after s3:, gcs:, huggingface: or https_signed: " +
			"signatures of other sources are not verified")
	case fault != "":
		return s.invalid("the source " + fault)
	case len(s.Key) > maxSignerKey || len(s.TrustedRoot) > maxTrustedRoot:
		return s.invalid("the key is longer than 4 KiB, or the trusted root longer than 64 KiB")
	case s.Key != "" && (s.Issuer != "" || s.Subject != "" || s.SubjectPattern != ""):
		return s.invalid("it has a key and an identity (set two signers, each of which suffices)")
	case s.Key != "":
		return nil
	case !plain(s.Issuer) || !plain(s.Subject) || !plain(s.SubjectPattern):
		return s.invalid("issuer or subject is longer than 1024 bytes, or has control characters")
	case err != nil || issuer.Scheme != "https" || issuer.Host == "":
		return s.invalid("it has no key, and no issuer of the form https://HOST (use --key FILE, or --issuer and a subject)")
	case (s.Subject == "") == (s.SubjectPattern == ""):
		return s.invalid("an identity has a subject or a pattern of the subject, and not both")
	case s.TrustedRoot == "":
		return s.invalid("an identity needs a trusted root, which names the authority of its certificates (use --trusted-root FILE)")
	}
	pattern, err := s.Pattern()
	if err == nil && (pattern.MatchString("") || pattern.MatchString("any@example.com") && pattern.MatchString("https://example.org/any")) {
		err = s.invalid("the pattern of the subject fits anybody")
	}
	return err
}

func (s ArtifactSigner) invalid(why string) error {
	return Errorf(Invalid, "artifact_signer_invalid", "cannot set artifact signer %q: %s", taskcatalog.Clean(s.Name, 64), why)
}

// ArtifactSignersOf returns the signers of whatever covers a source, one list for each such place, from
// the widest. An artifact needs a signature by one signer of every list: a further place only narrows.
func ArtifactSignersOf[S signer](all []S, source string) (lists [][]S) {
	source = signedSource(source)
	covering := slices.DeleteFunc(slices.Clone(all), func(s S) bool {
		place, _ := s.place()
		return !taskcatalog.SourceCovers(place, source)
	})
	slices.SortFunc(covering, func(a, b S) int {
		placeA, nameA := a.place()
		placeB, nameB := b.place()
		return cmp.Or(cmp.Compare(len(placeA), len(placeB)), strings.Compare(nameA, nameB))
	})
	last := ""
	for _, s := range covering {
		place, _ := s.place()
		if place != last {
			lists, last = append(lists, nil), place
		}
		lists[len(lists)-1] = append(lists[len(lists)-1], s)
	}
	return lists
}
