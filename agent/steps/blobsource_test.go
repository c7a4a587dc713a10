package steps

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

func TestWhereAFileIs(t *testing.T) {
	signed := func(source, url string) taskcatalog.BlobCredential {
		return taskcatalog.BlobCredential{URLs: map[string]string{source: url}}
	}
	for _, c := range []struct {
		kind, source string
		with         taskcatalog.BlobCredential
		want         string // empty: refused
	}{
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://s3.example/models/a/b.bin?X-Amz-Signature=x"), "https://s3.example/models/a/b.bin?X-Amz-Signature=x"},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://models.s3.example/a/b.bin?x=y"), "https://models.s3.example/a/b.bin?x=y"},
		{"s3", "models/a/b.bin", taskcatalog.BlobCredential{}, ""},
		{"s3", "models/a/b.bin", signed("models/a/c.bin", "https://s3.example/models/a/c.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://s3.example/models/a/c.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "http://s3.example/models/a/b.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://key:secret@s3.example/models/a/b.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://s3.example/models/a/b.bin#x"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "file:///models/a/b.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https:///models/a/b.bin"), ""},
		{"s3", "models/a/b.bin", signed("models/a/b.bin", "https://s3.example/models/a/b.bin?x="+strings.Repeat("y", taskcatalog.MaxBlobURL)), ""},
		{"s3", "models", signed("models", "https://s3.example/models"), ""},
		{"gcs", "models/a b/c.bin", taskcatalog.BlobCredential{}, "https://storage.googleapis.com/models/a%20b/c.bin"},
		{"huggingface", "meta/llama@0123abc/a/w.safetensors", taskcatalog.BlobCredential{Authorization: "Bearer x"}, "https://huggingface.co/meta/llama/resolve/0123abc/a/w.safetensors"},
		{"huggingface", "meta/llama@main/w", signed("meta/llama@main/w", "https://mirror.example/meta/llama/resolve/main/w"), "https://mirror.example/meta/llama/resolve/main/w"},
		{"huggingface", "meta/llama/w", taskcatalog.BlobCredential{}, ""},
		{"huggingface", "meta/llama@main", taskcatalog.BlobCredential{}, ""},
		{"huggingface", "llama@main/w", taskcatalog.BlobCredential{}, ""},
		{"huggingface", "meta/llama@/w", taskcatalog.BlobCredential{}, ""},
		{"huggingface", "meta/llama@../w", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "cdn.example/a/b.bin", taskcatalog.BlobCredential{}, "https://cdn.example/a/b.bin"},
		{"https_signed", "cdn.example/a/b.bin", signed("cdn.example/a/b.bin", "https://cdn.example/a/b.bin?Signature=x"), "https://cdn.example/a/b.bin?Signature=x"},
		{"https_signed", "cdn.example/a/b.bin", signed("cdn.example/a/b.bin", "https://other.example/a/b.bin"), ""},
		{"https_signed", "cdn.example/../b.bin", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "cdn.example/a?b", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "user@cdn.example/a", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "cdn.example:x/a", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "cdn.example/", taskcatalog.BlobCredential{}, ""},
		{"https_signed", "https://cdn.example/a", taskcatalog.BlobCredential{}, ""},
		{"ftp", "cdn.example/a", taskcatalog.BlobCredential{}, ""},
	} {
		got := ""
		b, err := parseBlobSource(c.kind, c.source)
		if err == nil {
			if u, at := b.address(c.with); at == nil {
				got = u.String()
			} else {
				err = at
			}
		}
		if got != c.want || got == "" && taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("%s:%s: %q %v", c.kind, c.source, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the address: %v", err)
		}
	}
}
