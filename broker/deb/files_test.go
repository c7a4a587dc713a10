package deb_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hostler/hostler/broker/deb"
	"github.com/hostler/hostler/broker/deb/debtest"
	"github.com/hostler/hostler/taskcatalog"
)

var entries = []tar.Header{
	debtest.Dir("./"), debtest.Dir("./usr/"), debtest.File("./usr/b", "x"), debtest.Link("/usr/a", "b"), debtest.File(".c", ""),
}

// The digests are the beginnings of sha256sum's output for "x" and for an empty file.
var want = []taskcatalog.BaselineFile{
	{Path: "/.c", Digest: "e3b0c44298fc1c149afbf4c8996fb924", Mode: 0o755},
	{Path: "/usr/a", Digest: "link:b"},
	{Path: "/usr/b", Digest: "2d711642b726b04401627ca9fbac32f5", Mode: 0o755},
}

func TestAPackageIsListedAsItIsInstalled(t *testing.T) {
	plain := debtest.Parts(t, entries...)
	plain[2] = debtest.Part{Name: "data.tar/", Content: debtest.Tar(t, false, entries...)}
	for name, raw := range map[string][]byte{"gzip": debtest.Join(debtest.Parts(t, entries...)...), "not packed": debtest.Join(plain...)} {
		got, err := deb.Files(iotest.HalfReader(bytes.NewReader(raw)))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestWhatDpkgMayReadInAnotherWayIsRefused(t *testing.T) {
	good := debtest.Parts(t, entries...)
	with := func(i int, p debtest.Part) []byte {
		parts := slices.Clone(good)
		parts[i] = p
		return debtest.Join(parts...)
	}
	data := func(entries ...tar.Header) []byte { return debtest.Join(debtest.Parts(t, entries...)...) }
	raw := debtest.Join(good...)
	var many []tar.Header
	for i := range 4097 {
		many = append(many, debtest.File(strconv.Itoa(i), ""))
	}
	for name, raw := range map[string][]byte{
		"nothing":                       nil,
		"something else":                []byte("not a package"),
		"another version":               with(0, debtest.Part{Name: "debian-binary", Content: "3.0\n"}),
		"no control":                    debtest.Join(good[0], good[2]),
		"data first":                    debtest.Join(good[0], good[2], good[1]),
		"no data":                       debtest.Join(good[:2]...),
		"data twice":                    debtest.Join(append(slices.Clone(good), good[2])...),
		"a part that dpkg skips":        debtest.Join(good[0], debtest.Part{Name: "_x", Content: "x"}, good[1], good[2]),
		"something behind it":           append(slices.Clone(raw), '\n'),
		"cut off":                       raw[:len(raw)-9],
		"packed in another way":         with(2, debtest.Part{Name: "data.tar.xz", Content: "x"}),
		"not packed as it says":         with(2, debtest.Part{Name: "data.tar.gz", Content: "x"}),
		"a sum that is wrong":           with(2, debtest.Part{Name: good[2].Name, Content: good[2].Content[:len(good[2].Content)-8] + "12345678"}),
		"no size":                       []byte(strings.Replace(string(raw), "4         `", "x         `", 1)),
		"a size below nothing":          []byte(strings.Replace(string(raw), "4         `", "-1        `", 1)),
		"more than there is":            []byte(strings.Replace(string(raw), "4         `", "9999999999`", 1)),
		"a file twice":                  data(debtest.File("a", "1"), debtest.File("./a", "2")),
		"a file that is a directory":    data(debtest.Dir("a/"), debtest.File("a", "2")),
		"a way out":                     data(debtest.File("../a", "")),
		"a way round":                   data(debtest.File("usr/../a", "")),
		"a name with a control letter":  data(debtest.File("a\x1b", "")),
		"a name that is long":           data(debtest.File(strings.Repeat("a", 300), "")),
		"a device":                      data(tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}),
		"another name of a file":        data(debtest.File("a", ""), tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}),
		"a link to a line of its own":   data(debtest.Link("a", "b\nc")),
		"the root of the file system":   data(debtest.File(".", "")),
		"a directory twice":             data(debtest.Dir("a/"), debtest.Dir("a/")),
		"more files than anybody needs": data(many...),
	} {
		if got, err := deb.Files(bytes.NewReader(raw)); !errors.Is(err, deb.ErrUnreadable) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// An error of the reader must not count as a bad package.
func TestATroubleOfTheStoreIsNoneOfThePackage(t *testing.T) {
	raw := debtest.Join(debtest.Parts(t, entries...)...)
	down := errors.New("the database is gone")
	for n := range len(raw) {
		_, err := deb.Files(io.MultiReader(bytes.NewReader(raw[:n]), iotest.ErrReader(down)))
		if !errors.Is(err, down) || errors.Is(err, deb.ErrUnreadable) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add(debtest.Join(debtest.Parts(f, entries...)...))
	plain := debtest.Parts(f, entries...)
	plain[2] = debtest.Part{Name: "data.tar", Content: debtest.Tar(f, false, entries...)}
	f.Add(debtest.Join(plain...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, err := deb.Files(bytes.NewReader(raw))
		if err != nil {
			if files != nil || !errors.Is(err, deb.ErrUnreadable) {
				t.Fatalf("%v with %v", files, err)
			}
			return
		}
		for i, is := range files {
			if !strings.HasPrefix(is.Path, "/") || taskcatalog.Clean(is.Path, 256) != is.Path || is.Digest == "" || i > 0 && files[i-1].Path >= is.Path {
				t.Fatalf("%+v", is)
			}
		}
	})
}
