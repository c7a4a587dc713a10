package broker

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var team = ArtifactSigner{
	Name: "team", Source: "oci:registry.example/models", Issuer: "https://login.example", Subject: "team@example.com", TrustedRoot: "{}",
}

func TestASignerSaysOneThing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ArtifactSigner)
		ok     bool
	}{
		"an identity": {func(*ArtifactSigner) {}, true},
		"a pattern":   {func(s *ArtifactSigner) { s.Subject, s.SubjectPattern = "", `.+@example\.com` }, true},
		"a key":       {func(s *ArtifactSigner) { *s = ArtifactSigner{Name: "k", Source: s.Source, Key: "PEM"} }, true},
		"a key with a log": {func(s *ArtifactSigner) {
			*s = ArtifactSigner{Name: "k", Source: s.Source, Key: "PEM", TrustedRoot: "{}"}
		}, true},
		"a name with a blank":      {func(s *ArtifactSigner) { s.Name = "a b" }, false},
		"a bucket":                 {func(s *ArtifactSigner) { s.Source = "s3:models" }, true},
		"a repository of files":    {func(s *ArtifactSigner) { s.Source = "huggingface:owner/model" }, true},
		"an index of packages":     {func(s *ArtifactSigner) { s.Source = "pypi:pypi.example" }, false},
		"every bucket":             {func(s *ArtifactSigner) { s.Source = "s3:" }, false},
		"no kind":                  {func(s *ArtifactSigner) { s.Source = "models" }, false},
		"everything":               {func(s *ArtifactSigner) { s.Source = "oci:" }, false},
		"a key and an identity":    {func(s *ArtifactSigner) { s.Key = "PEM" }, false},
		"a long key":               {func(s *ArtifactSigner) { s.Key = strings.Repeat("k", 5000) }, false},
		"a long root":              {func(s *ArtifactSigner) { s.TrustedRoot = strings.Repeat("k", 65<<10) }, false},
		"no issuer":                {func(s *ArtifactSigner) { s.Issuer = "" }, false},
		"an issuer without TLS":    {func(s *ArtifactSigner) { s.Issuer = "http://login.example" }, false},
		"no subject":               {func(s *ArtifactSigner) { s.Subject = "" }, false},
		"both subjects":            {func(s *ArtifactSigner) { s.SubjectPattern = "x" }, false},
		"a subject with a newline": {func(s *ArtifactSigner) { s.Subject = "a\nb" }, false},
		"no trusted root":          {func(s *ArtifactSigner) { s.TrustedRoot = "" }, false},
		"no pattern":               {func(s *ArtifactSigner) { s.Subject, s.SubjectPattern = "", "(" }, false},
		"a pattern that closes":    {func(s *ArtifactSigner) { s.Subject, s.SubjectPattern = "", "a)|(?:.*" }, false},
		"a pattern of anything":    {func(s *ArtifactSigner) { s.Subject, s.SubjectPattern = "", ".*" }, false},
		"a pattern of anybody":     {func(s *ArtifactSigner) { s.Subject, s.SubjectPattern = "", ".+" }, false},
	} {
		s := team
		c.change(&s)
		if err := s.Check(); (err == nil) != c.ok || err != nil && AsError(err).Code != "artifact_signer_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPatternIsOfTheWholeIdentity(t *testing.T) {
	for _, c := range []struct {
		subject, pattern, is string
		fits                 bool
	}{
		{"a.b@example.com", "", "a.b@example.com", true},
		{"a.b@example.com", "", "aXb@example.com", false},
		{"a.b@example.com", "", "a.b@example.com.evil", false},
		{"", "a|b", "ab", false},
		{"", "(?m)a$", "a\nb", false},
		{"", "https://git/x/.*", "https://git/x/y", true},
		{"", "https://git/x/.*", "evil https://git/x/y", false},
	} {
		p, err := ArtifactSigner{Subject: c.subject, SubjectPattern: c.pattern}.Pattern()
		if err != nil || p.MatchString(c.is) != c.fits {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestWhatIsBelievedHasADigest(t *testing.T) {
	unlogged := ArtifactSigner{Source: team.Source, Key: "k"}
	logged := unlogged
	logged.TrustedRoot = "{}"
	seen := map[string]bool{team.Trust(): true, unlogged.Trust(): true, logged.Trust(): true}
	if len(seen) != 3 || unlogged.Root() != "" {
		t.Errorf("a trusted root that is added makes no difference: %v", seen)
	}
	for _, change := range []func(*ArtifactSigner){
		func(s *ArtifactSigner) { s.Source += "/x" },
		func(s *ArtifactSigner) { s.Key = "k" },
		func(s *ArtifactSigner) { s.Issuer += "x" },
		func(s *ArtifactSigner) { s.Subject += "x" },
		func(s *ArtifactSigner) { s.SubjectPattern = s.Subject },
	} {
		s := team
		change(&s)
		if seen[s.Trust()] {
			t.Errorf("%+v has the digest of another", s)
		}
		seen[s.Trust()] = true
	}
	s := team
	s.Reason, s.SetBy = "turned", "ada"
	if s.Trust() != team.Trust() {
		t.Error("the reason is a part of what is believed")
	}
	s.TrustedRoot += " "
	if s.Trust() != team.Trust() || s.Root() == team.Root() {
		t.Error("a renewed trusted root is another signer, or the former root")
	}
}

// Whoever spells a registry otherwise does not get around its signers.
func TestSignersAreOfTheRegistryHoweverItIsSpelled(t *testing.T) {
	other := ArtifactSigner{Name: "other", Source: "oci:Registry.example:443/models"}
	if err := other.Check(); err == nil || !strings.Contains(err.Error(), "is another spelling of oci:registry.example/models (write it so)") {
		t.Errorf("%v", err)
	}
	for _, artifact := range []string{"oci:registry.example/models/llama", "oci:registry.example:443/models/llama", "oci:REGISTRY.example./models/llama"} {
		if lists := ArtifactSignersOf([]ArtifactSigner{team, other}, artifact); len(lists) != 1 || len(lists[0]) != 2 {
			t.Errorf("%s: %+v", artifact, lists)
		}
	}
}

// Whoever spells a source of files otherwise does not get around its signers.
func TestSignersAreOfTheFilesHoweverTheirSourceIsSpelled(t *testing.T) {
	for place, sources := range map[string][]string{
		"huggingface:Owner/model":         {"huggingface:Owner/model@main/w", "huggingface:owner/Model@main/w"},
		"https_signed:files.example":      {"https_signed:files.example/w", "https_signed:files.example:443/w"},
		"https_signed:files.example:443":  {"https_signed:files.example/w"},
		"https_signed:files.example/a":    {"https_signed:files.example:443/a/w"},
		"s3:models":                       {"s3:models/w"},
		"https_signed:files.example:8443": {"https_signed:files.example:8443/w"},
	} {
		for _, source := range sources {
			if lists := ArtifactSignersOf([]ArtifactSigner{{Name: "team", Source: place}}, source); len(lists) != 1 {
				t.Errorf("%s has no signer of %s", source, place)
			}
		}
	}
	both := []ArtifactSigner{{Name: "a", Source: "huggingface:Owner/m"}, {Name: "b", Source: "huggingface:owner/m"}, {Name: "c", Source: "huggingface:Owner/m"}}
	if lists := ArtifactSignersOf(both, "huggingface:owner/m@v1/w"); len(lists) != 1 || len(lists[0]) != 3 {
		t.Errorf("one place has %d lists", len(lists))
	}
	for _, source := range []string{"https_signed:files.example:8443/w", "https_signed:files.example.evil/w", "https_signed:other.example/files.example/w", "s3:Models/w", "s3:models-of-others/w"} {
		if lists := ArtifactSignersOf([]ArtifactSigner{{Name: "team", Source: "https_signed:files.example"}, {Name: "s", Source: "s3:models"}}, source); len(lists) != 0 {
			t.Errorf("%s has signers of another place", source)
		}
	}
}

// A further place asks for a further signature, and takes none away.
func TestAFurtherPlaceOnlyNarrows(t *testing.T) {
	sources := []string{"oci:r.example", "oci:r.example/a", "oci:r.example/a/b", "oci:r.example/ab", "oci:other.example"}
	const artifact = "oci:r.example/a/b/c"
	rapid.Check(t, func(t *rapid.T) {
		var all []ArtifactSigner
		for i, at := range rapid.SliceOfN(rapid.SampledFrom(sources), 0, 6).Draw(t, "sources") {
			all = append(all, ArtifactSigner{Name: string(rune('a' + i)), Source: at})
		}
		// signed holds for a set of signers if each list has one of them.
		signed := func(all []ArtifactSigner, by string) bool {
			return !slices.ContainsFunc(ArtifactSignersOf(all, artifact), func(list []ArtifactSigner) bool {
				return !slices.ContainsFunc(list, func(s ArtifactSigner) bool { return strings.Contains(by, s.Name) })
			})
		}
		by := rapid.StringMatching("[a-g]{0,6}").Draw(t, "by")
		more := ArtifactSigner{Name: "z", Source: rapid.SampledFrom(sources).Draw(t, "more")}
		had := slices.ContainsFunc(all, func(s ArtifactSigner) bool { return s.Source == more.Source })
		if !signed(all, by) && signed(append(slices.Clone(all), more), by) {
			t.Fatalf("%+v lets in what %+v does not", more, all)
		}
		if !had && !signed(all, by) && signed(append(slices.Clone(all), more), by+"z") {
			t.Fatalf("a signer of another place stands for those of %+v", all)
		}
		for i, list := range ArtifactSignersOf(all, artifact) {
			if i > 0 && len(list[0].Source) < len(ArtifactSignersOf(all, artifact)[i-1][0].Source) || list[0].Source == "oci:r.example/ab" || list[0].Source == "oci:other.example" {
				t.Fatalf("%+v", list)
			}
		}
	})
}
