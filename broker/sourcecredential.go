package broker

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// SourceCredential is the record of an account at a source of artifacts: a bucket or a repository of
// files. The broker signs requests with the account, or gives its token, for the tasks of operations
// alone. The account's secret is among the broker's secrets.
type SourceCredential struct {
	Name string
	// Source is the kind of the source and a prefix: s3:models/public. The account serves what is the
	// prefix or lies below it.
	Source   string
	Endpoint string // https://HOST[:PORT] of the source's service
	Region   string // of s3 and gcs: the region of the signature
	KeyID    string // of s3 and gcs: the access key's id
	// VaultPath is the path of the secret.
	VaultPath string
	// Generation changes each time an account is set, and is stored with the record and with the
	// secret. Different values mean an interruption between the two writes.
	Generation string

	SetBy, Reason string
	SetAt         time.Time
}

// Kinds of sources that need an account to be read.
const (
	SourceS3          = "s3"
	SourceGCS         = "gcs"
	SourceHuggingFace = "huggingface"
)

var (
	sourceCredentialName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)
	sourcePrefix         = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
	sourceRegion         = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)
)

// SourceCredentialPath is the path of a source account's secret.
func SourceCredentialPath(name string) string { return "sources/" + name + "/account" }

// Defaults fills in the endpoint and region that a kind of source has.
func (c SourceCredential) Defaults() SourceCredential {
	kind, _, _ := strings.Cut(c.Source, ":")
	switch {
	case kind == SourceHuggingFace && c.Endpoint == "":
		c.Endpoint = "https://huggingface.co"
	case kind == SourceGCS && c.Endpoint == "":
		c.Endpoint = "https://storage.googleapis.com"
	}
	if kind == SourceGCS && c.Region == "" {
		c.Region = "auto"
	}
	return c
}

// Check refuses an invalid account. Code: source_credential_invalid.
func (c SourceCredential) Check(secret string) error {
	refuse := func(why string) error {
		return Errorf(Invalid, "source_credential_invalid", "cannot store source credential %q: %s", taskcatalog.Clean(c.Name, 64), why)
	}
	kind, prefix, _ := strings.Cut(c.Source, ":")
	bucket := kind == SourceS3 || kind == SourceGCS
	endpoint, err := url.Parse(c.Endpoint)
	switch {
	case !sourceCredentialName.MatchString(c.Name):
		return refuse("a name has a-z, 0-9 and '-', 63 at most")
	case !bucket && kind != SourceHuggingFace:
		return refuse("the source is not KIND:PREFIX with the kind s3, gcs or huggingface")
	case !sourcePrefix.MatchString(prefix) || len(prefix) > 400:
		return refuse("the prefix of the source is not a bucket or repository, with or without a path")
	case c.Endpoint == "":
		return refuse("the endpoint is missing (use --endpoint https://HOST)")
	case err != nil || endpoint.Hostname() == "" || c.Endpoint != "https://"+endpoint.Host || len(c.Endpoint) > 300:
		return refuse("the endpoint is not https://HOST[:PORT]: nodes pull over TLS alone")
	case bucket && (!sourceRegion.MatchString(c.Region) || !plainSecret(c.KeyID, 256)):
		return refuse("a bucket's account has a region and the id of an access key (use --region and --key-id)")
	case !bucket && (c.Region != "" || c.KeyID != ""):
		return refuse("a token has neither a region nor a key id")
	case !plainSecret(secret, 4<<10):
		return refuse("the secret is empty, longer than 4 KiB, or has blanks or control characters")
	}
	return nil
}

// plainSecret reports whether a text fits into one word of a header.
func plainSecret(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && taskcatalog.Clean(text, 2*most) == text &&
		!strings.ContainsAny(text, " \t")
}
