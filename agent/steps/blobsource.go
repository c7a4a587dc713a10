package steps

import (
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Kinds of sources of a file.
const (
	sourceS3          = "s3"
	sourceGCS         = "gcs"
	sourceHuggingFace = "huggingface"
	sourceHTTPS       = "https_signed"
)

var (
	sourceHost  = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$`)
	sourceRepo  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9._-]*$`)
	sourceWhere = map[string]string{
		sourceS3: "BUCKET/OBJECT", sourceGCS: "BUCKET/OBJECT", sourceHuggingFace: "OWNER/REPOSITORY@REVISION/FILE", sourceHTTPS: "HOST[:PORT]/PATH",
	}
)

// blobSource is a file at a source, as the plan names it.
type blobSource struct {
	kind, text string
	// host and path are the well-known address; an empty host: there is none. suffix ends the path of every
	// address of the file.
	host, path, suffix string
}

// parseBlobSource reads the arguments from and source.
func parseBlobSource(kind, text string) (blobSource, error) {
	b := blobSource{kind: kind, text: text}
	first, rest, _ := strings.Cut(text, "/")
	ok := rest != "" && !strings.ContainsAny(text, "?#%\\")
	for part := range strings.SplitSeq(text, "/") {
		ok = ok && part != "" && part != "." && part != ".."
	}
	switch kind {
	case sourceS3:
		b.suffix = "/" + rest
	case sourceGCS:
		b.host, b.path, b.suffix = "storage.googleapis.com", "/"+text, "/"+rest
	case sourceHuggingFace:
		second, file, _ := strings.Cut(rest, "/")
		ok = ok && file != "" && sourceRepo.MatchString(first+"/"+second)
		repo, revision, _ := strings.Cut(first+"/"+second, "@")
		b.host, b.path = "huggingface.co", "/"+repo+"/resolve/"+revision+"/"+file
		b.suffix = b.path
	case sourceHTTPS:
		ok = ok && sourceHost.MatchString(first)
		b.host, b.path, b.suffix = first, "/"+rest, "/"+rest
	default:
		ok = false
	}
	if !ok {
		return b, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source %s:%s is not of the form %s",
			taskcatalog.Clean(kind, 32), taskcatalog.Clean(text, 200), sourceWhere[kind])
	}
	return b, nil
}

// address returns where the file is: the address of the credential, or the well-known one. The
// address of a credential must be of this file.
func (b blobSource) address(c taskcatalog.BlobCredential) (*url.URL, error) {
	refuse := func(why string) (*url.URL, error) {
		return nil, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "cannot ask for %s:%s: %s", b.kind, taskcatalog.Clean(b.text, 200), why)
	}
	signed, given := c.URLs[b.text]
	switch {
	case !given && b.host == "":
		return refuse("a bucket of S3 has no address without a credential (mint one of type s3_read)")
	case !given:
		return &url.URL{Scheme: "https", Host: b.host, Path: b.path}, nil
	case len(signed) > taskcatalog.MaxBlobURL:
		return refuse("the address in the credential is too long")
	}
	u, err := url.Parse(signed)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || !strings.HasSuffix(u.Path, b.suffix) ||
		b.kind == sourceHTTPS && u.Host != b.host {
		return refuse("the address in the credential is not one of this file")
	}
	return u, nil
}
