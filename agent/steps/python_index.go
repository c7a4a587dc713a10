package steps

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Why a package does not come from the index.
const (
	CodeWheelNotFound    taskcatalog.Code = "wheel_not_found"
	CodeIndexUnavailable taskcatalog.Code = "index_unavailable"
)

const (
	maxIndexPage      = 32 << 20
	maxIndexRedirects = 5
)

// pythonIndex is a package index as PEP 503 describes it. Every request stays on the plan's list of
// sources, redirects and files of other hosts included.
type pythonIndex struct {
	client *http.Client
	source string // host and path
	listed []string
	most   int64 // bytes of a wheel
	// tags are the wheels that the interpreter takes, the best first.
	tags map[string]int
}

func newPythonIndex(s *Step, tags []string) (*pythonIndex, error) {
	if s.Plan.Artifacts == nil || s.Host.Downloads == nil {
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "the plan has no artifacts, and the step brings packages")
	}
	x := &pythonIndex{source: strings.TrimSuffix(s.Args.Text("source"), "/"), most: s.Plan.Artifacts.MaxBytes, tags: map[string]int{}}
	for _, listed := range s.Plan.Artifacts.Sources {
		if at, ok := strings.CutPrefix(listed, "pypi:"); ok {
			x.listed = append(x.listed, at)
		}
	}
	for i, tag := range tags {
		x.tags[tag] = i
	}
	client := *s.Host.Downloads.HTTP()
	client.Jar = nil
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		req.Header.Del("Referer")
		if len(via) > maxIndexRedirects {
			return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the index redirects more than %d times", maxIndexRedirects)
		}
		return x.permit(req.URL)
	}
	x.client = &client
	return x, nil
}

// permit refuses what is not below a source of the plan's list.
func (x *pythonIndex) permit(u *url.URL) error {
	below := func(listed string) bool {
		at := u.Host + u.Path
		return at == listed || strings.HasPrefix(at, listed+"/")
	}
	up := func(part string) bool { return part == "." || part == ".." }
	clean := !strings.Contains(u.Path, "//") && !slices.ContainsFunc(strings.Split(u.Path, "/"), up)
	if u.Scheme != "https" || u.User != nil || !clean || !slices.ContainsFunc(x.listed, below) {
		return taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "%s://%s is not below a source that the plan lists (pypi:HOST/PATH)",
			taskcatalog.Clean(u.Scheme, 16), taskcatalog.Clean(u.Host+u.Path, 200))
	}
	return nil
}

// get asks for an address on the list, and gives the answer to take.
func (x *pythonIndex) get(ctx context.Context, u *url.URL, take func(*http.Response) error) error {
	if err := x.permit(u); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/html, */*;q=0.1")
	resp, err := x.client.Do(req)
	if err != nil {
		return indexFault(ctx, u, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
		return taskcatalog.Errorf(CodeWheelNotFound, "the index does not have %s", taskcatalog.Clean(u.Host+u.Path, 200))
	case resp.StatusCode != http.StatusOK:
		return taskcatalog.Errorf(CodeIndexUnavailable, "the index answers %d for %s", resp.StatusCode, taskcatalog.Clean(u.Host+u.Path, 200))
	}
	return take(resp)
}

// indexFault keeps a refusal of the client, and the end of the step.
func indexFault(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*taskcatalog.Error](err); ok {
		return refused
	}
	return taskcatalog.Errorf(CodeIndexUnavailable, "the index at %s %s", taskcatalog.Clean(u.Host, 200), download.Cause(err))
}

// wheel is a file of a package on the index.
type wheel struct {
	name string
	at   *url.URL
	rank int
}

// find returns the wheel of a package that fits the interpreter best.
func (x *pythonIndex) find(ctx context.Context, e lockEntry) (best wheel, err error) {
	page, err := url.Parse("https://" + x.source + "/" + e.normal() + "/")
	if err != nil {
		return best, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source is no host and path")
	}
	err = x.get(ctx, page, func(resp *http.Response) error {
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxIndexPage+1))
		switch {
		case err != nil:
			return indexFault(ctx, page, err)
		case len(raw) > maxIndexPage:
			return taskcatalog.Errorf(CodeIndexUnavailable, "the index has more than %d bytes of links for %s", maxIndexPage, e.name)
		}
		for _, w := range x.wheels(raw, resp.Request.URL, e) {
			if best.at == nil || w.rank < best.rank {
				best = w
			}
		}
		if best.at == nil {
			return taskcatalog.Errorf(CodeWheelNotFound,
				"the index has no wheel of %s==%s that has a hash of the lock file and fits this machine's Python", e.name, e.version)
		}
		return nil
	})
	return best, err
}

var indexLink = lazyregexp.New(`(?is)<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')`)

// wheels lists the links of a page that are wheels of the package and fit.
func (x *pythonIndex) wheels(page []byte, base *url.URL, e lockEntry) []wheel {
	var all []wheel
	for _, m := range indexLink.FindAllSubmatch(page, -1) {
		link, err := url.Parse(html.UnescapeString(string(m[1]) + string(m[2])))
		if err != nil {
			continue
		}
		at := base.ResolveReference(link)
		name := at.Path[strings.LastIndex(at.Path, "/")+1:]
		rank, fits := x.fits(name, e)
		if algorithm, sum, ok := strings.Cut(at.Fragment, "="); ok && algorithm == "sha256" && onlyHashes(e, "sha256:") {
			fits = fits && slices.Contains(e.hashes, "sha256:"+sum)
		}
		if at.Fragment = ""; fits {
			all = append(all, wheel{name, at, rank})
		}
	}
	return all
}

func onlyHashes(e lockEntry, algorithm string) bool {
	return !slices.ContainsFunc(e.hashes, func(h string) bool { return !strings.HasPrefix(h, algorithm) })
}

// wheelName is NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl.
var wheelName = lazyregexp.New(
	`^([A-Za-z0-9._]+)-([A-Za-z0-9._!+]+)(?:-[0-9][A-Za-z0-9_.]*)?-([A-Za-z0-9._]+)-([A-Za-z0-9._]+)-([A-Za-z0-9._]+)\.whl$`)

// fits reports whether a file is a wheel of the package that the interpreter takes, and how good it is.
func (x *pythonIndex) fits(file string, e lockEntry) (rank int, ok bool) {
	m := wheelName.FindStringSubmatch(file)
	plain := func(version string) string { return strings.ToLower(lockRuns.ReplaceAllString(version, ".")) }
	if m == nil || len(file) > 250 || normalName(m[1]) != e.normal() || plain(m[2]) != plain(e.version) {
		return 0, false
	}
	for python := range strings.SplitSeq(m[3], ".") {
		for abi := range strings.SplitSeq(m[4], ".") {
			for platform := range strings.SplitSeq(m[5], ".") {
				if at, known := x.tags[python+"-"+abi+"-"+platform]; known && (!ok || at < rank) {
					rank, ok = at, true
				}
			}
		}
	}
	return rank, ok
}

// fetch brings a wheel into a file, and holds it against the hashes of the lock file.
func (x *pythonIndex) fetch(ctx context.Context, w wheel, e lockEntry, into string) (size int64, err error) {
	f, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sums := map[string]hash.Hash{"sha256": sha256.New(), "sha384": sha512.New384(), "sha512": sha512.New()}
	to := []io.Writer{f}
	for algorithm, sum := range sums {
		if slices.ContainsFunc(e.hashes, func(h string) bool { return strings.HasPrefix(h, algorithm) }) {
			to = append(to, sum)
		}
	}
	err = x.get(ctx, w.at, func(resp *http.Response) error {
		room, err := roomOf(f)
		if err != nil {
			return err
		}
		most := min(x.most, max(room, 0))
		if size = resp.ContentLength; size <= most {
			size, err = io.Copy(io.MultiWriter(to...), io.LimitReader(resp.Body, most+1))
		}
		switch {
		case isFull(err):
			return err
		case err != nil:
			return indexFault(ctx, w.at, err)
		case size > x.most:
			return taskcatalog.Errorf(taskcatalog.CodeArtifactTooBig, "%s has more than the %d bytes that the plan permits", w.name, x.most)
		case size > most:
			return taskcatalog.Errorf(taskcatalog.CodeDiskFull,
				"cannot receive %s: the file system of the agent's state has room for %d bytes (free space on the node, and retry)", w.name, most)
		}
		return nil
	})
	if err != nil {
		return size, err
	}
	for algorithm, sum := range sums {
		if slices.Contains(e.hashes, algorithm+":"+hex.EncodeToString(sum.Sum(nil))) {
			return size, nil
		}
	}
	return size, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "%s has none of the hashes of the lock file", w.name)
}
