package taskcatalog

import (
	"strings"
	"testing"
)

func TestAListedSourceHasAKindAndACleanPrefix(t *testing.T) {
	for _, ok := range []string{"s3:models", "s3:models/public", "oci:registry.example:5000/tools", "pypi:pypi.org/simple"} {
		if fault := SourceListFault(ok); fault != "" {
			t.Errorf("%s %s", ok, fault)
		}
	}
	for _, c := range []struct{ source, says string }{
		{"", "is no source"},
		{"models", "is no source"},
		{"s3:", "is no source"},
		{"s3:models/", "is no source"},
		{"s3:models//public", "is no source"},
		{"s3:models/../private", "is no source"},
		{"s3:models/./public", "is no source"},
		{"s3:models/%2e%2e", "is no source"},
		{"s3:models?x=1", "is no source"},
		{"ftp:models", "is no source"},
		{"S3:models", "is no source"},
		{"s3:models/*", "leave the '*' out"},
		{"s3:mo\u202edels", "cannot be shown"},
		{"s3:mo\x1b[2Jdels", "cannot be shown"},
		{"s3:mo\ndels", "cannot be shown"},
		{"s3:mo\xffdels", "cannot be shown"},
		{"s3:" + strings.Repeat("a", 510), "longer than 512"},
	} {
		if fault := SourceListFault(c.source); !strings.Contains(fault, c.says) {
			t.Errorf("%q: %q, want %q", c.source, fault, c.says)
		}
	}
}

func TestAListedSourceCoversWhatLiesBelowIt(t *testing.T) {
	for _, c := range []struct {
		source string
		covers bool
	}{
		{"s3:models/public", true},
		{"s3:models/public/llama/weights", true},
		{"s3:models", false},
		{"s3:models/public-of-others", false},
		{"s3:models/public/../private", false},
		{"s3:models/public/", false},
		{"gcs:models/public", false},
		{"", false},
	} {
		if got := SourceCovers("s3:models/public", c.source); got != c.covers {
			t.Errorf("s3:models/public covers %q: %v", c.source, got)
		}
	}
}

// A repository covers its revisions, and no other kind of source has revisions.
func TestAListedRepositoryCoversItsRevisions(t *testing.T) {
	for _, c := range []struct {
		listed, source string
		covers         bool
	}{
		{"huggingface:owner", "huggingface:owner/model@main/w.bin", true},
		{"huggingface:owner/model", "huggingface:owner/model@main/w.bin", true},
		{"huggingface:owner/model", "huggingface:owner/model@main", true},
		{"huggingface:owner/model@main", "huggingface:owner/model@main/w.bin", true},
		{"huggingface:owner/model@main", "huggingface:owner/model@other/w.bin", false},
		{"huggingface:owner/model", "huggingface:owner/model-of-others@main/w.bin", false},
		{"huggingface:owner/model", "huggingface:owner/model@main/../x", false},
		{"s3:models", "s3:models@main/w.bin", false},
		{"oci:registry.example/tools", "oci:registry.example/tools@sha256", false},
	} {
		if got := SourceCovers(c.listed, c.source); got != c.covers {
			t.Errorf("%s covers %s: %v", c.listed, c.source, got)
		}
	}
}

// All spellings of a registry lead to the same artifacts. Only one stands on a list, and each is compared as that one.
func TestARegistryHasOneSpelling(t *testing.T) {
	for spelling, one := range map[string]string{
		"registry.example:443":   "registry.example",
		"registry.example:0443":  "registry.example",
		"registry.example:":      "registry.example",
		"Registry.EXAMPLE":       "registry.example",
		"registry.example.":      "registry.example",
		"registry.example.:443":  "registry.example",
		"registry.example:05000": "registry.example:5000",
		"index.docker.io":        "docker.io",
		"registry-1.docker.io.":  "docker.io",
		"[2001:DB8:0::1]:443":    "[2001:db8::1]",
	} {
		for _, path := range []string{"", "/models", "/models/llama"} {
			if fault := SourceListFault("oci:" + spelling + path); fault != "is another spelling of oci:"+one+path+" (write it so)" {
				t.Errorf("oci:%s%s %q", spelling, path, fault)
			}
			if fault := SourceListFault("oci:" + one + path); fault != "" {
				t.Errorf("oci:%s%s %s", one, path, fault)
			}
			if !SourceCovers("oci:"+one, "oci:"+spelling+path) || !SourceCovers("oci:"+spelling, "oci:"+one+path) {
				t.Errorf("%s and %s cover different artifacts", spelling, one)
			}
		}
	}
	for _, other := range []string{"oci:registry.example:80/m", "oci:registry.example/M", "oci:registry.example.org/m", "https_signed:registry.example/m"} {
		if SourceCovers("oci:registry.example/m", other) {
			t.Errorf("oci:registry.example/m covers %s", other)
		}
	}
	for _, registry := range []string{"user@registry.example", "r\u00e9gistry.example", "registry.example:x", "-registry.example"} {
		if fault := SourceListFault("oci:" + registry + "/m"); fault != "has no registry HOST[:PORT]" {
			t.Errorf("%s %q", registry, fault)
		}
	}
}
