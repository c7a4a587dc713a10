package scrub

import (
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// severity is the severity of a kernel log line for a GPU, in ascending order.
type severity int

const (
	harmless severity = iota
	unclear           // the line does not tell whether the GPU is healthy
	broken
)

// family is a kind of log line in which a driver reports faults of its devices. A line of a family
// without a matching row in faults is unclear.
type family struct {
	name, vendor string
	// lines matches the lines of the family.
	lines *lazyregexp.Regexp
	// form splits a line into the groups at (a PCI address), number and text.
	form *lazyregexp.Regexp
	// all: the lines concern every GPU of the vendor.
	all bool
}

const (
	xid  = "Xid"
	sxid = "SXid"
	nvrm = "NVRM"
	ras  = "amdgpu"
)

// families are in order of precedence: a line belongs to the first family it matches.
var families = []family{
	{
		name: xid, vendor: "nvidia", lines: lazyregexp.New(`NVRM: Xid\b`),
		form: lazyregexp.New(`NVRM: Xid \((?:PCI:)?(?P<at>[0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F.]+)(?: [^)]*)?\): (?P<number>[0-9]+)\b(?P<text>.*)`),
	},
	// The address is the NVSwitch's, and every GPU is behind every switch.
	{
		name: sxid, vendor: "nvidia", lines: lazyregexp.New(`\bSXid\b`), all: true,
		form: lazyregexp.New(`SXid \([^)]*\): (?P<number>[0-9]+), (?P<text>.*)`),
	},
	{
		name: nvrm, vendor: "nvidia",
		lines: lazyregexp.New(`NVRM: .*(fallen off the bus|RmInitAdapter failed|_scrubWaitAndSave: Timed out)|_scrubWaitAndSave: Timed out`),
		form:  lazyregexp.New(`(?:NVRM: GPU (?:at )?(?:PCI:)?(?P<at>[0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F.]+)\b:?)?(?P<text>.*)`),
	},
	// Kernels before 6.11 name no device when a ring hangs.
	{
		name: ras, vendor: "amd",
		lines: lazyregexp.New(`(?i)amdgpu.*(hardware error|ERREVENT|poison|\bRAS\b.*(interrupt|error|fail|threshold)|bad pages?\b.*threshold|\bring \S+ (timeout|reset)|reset.*(fail|end with|error|timed? ?out)|recovery failed|unrecoverable|lost from bus|wedged|fatal error)`),
		form:  lazyregexp.New(`(?:amdgpu (?P<at>[0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F.]+): )?(?P<text>.*)`),
	},
}

// fault is the meaning of a family's lines, by number or text.
type fault struct {
	family string
	// numbers are the numbers of the row, such as "48 62 144-150"; empty: every number.
	numbers  string
	text     *lazyregexp.Regexp // nil: any
	severity severity
	pattern  string
}

func pattern(text string) *lazyregexp.Regexp { return lazyregexp.New(`(?i)` + text) }

// faults is the table of known lines. The first row that matches a line gives its meaning.
//
// Xid: NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) and, for
// numbers logged only by older drivers, nverror.h of open-gpu-kernel-modules. Numbers for which the
// catalog recommends a reset or a reboot mean broken, and so does every memory fault; numbers with
// IGNORE or RESTART_APP mean harmless. Numbers that the catalog leaves to support or to a person,
// or calls unused, have no row, and are unclear.
//
// SXid: NVIDIA's Fabric Manager user guide, tables of non-fatal and fatal errors. The severity
// lines follow each error (nvswitch, common_nvswitch.h).
//
// amdgpu: drivers/gpu/drm/amd of Linux, amdgpu_ras.c, amdgpu_job.c, amdgpu_device.c, amdgpu_aca.c,
// 5.15 to 6.17.
var faults = []fault{
	{xid, "48 171 172", nil, broken, "an uncorrectable memory error"},
	{xid, "64 157", nil, broken, "memory that is faulty and cannot be retired"},
	{xid, "63 156", nil, broken, "memory that is retired or remapped"},
	{xid, "92 94 95 140", nil, broken, "an error of the memory"},
	{xid, "46 62 109 110 119 120 143 158 167 169", nil, broken, "the GPU or its firmware stopped"},
	{xid, "74 136 155", nil, broken, "an error of an NVLink"},
	{xid, "79", nil, broken, "the GPU has fallen off the bus"},
	{xid, "144-150", pattern(`\bnon-?fatal\b`), harmless, "an error of NVLink 5 that is not fatal"},
	{xid, "144-150", pattern(`\bfatal\b`), broken, "a fatal error of NVLink 5"},
	{xid, "154", pattern(`\bto 0x0+\b`), harmless, "no recovery is needed any more"},
	{xid, "154", pattern(`\bto 0x[1-5]\b`), broken, "the GPU needs recovery"},
	{xid, "154", pattern(`\bto 0x`), unclear, "a recovery action that this version of the agent does not know"},
	{xid, "154", nil, broken, "the GPU needs recovery"},
	{
		xid, "8 11 13 14 25 31 32 37-41 43-45 60 66-72 75-77 80 82-86 88 89 96-105 126-135 137 139 141", nil, harmless,
		"a fault of an application",
	},
	{xid, "93 106-108 121 160 162 163", nil, harmless, "a notice"},

	{sxid, "", pattern(`^severity [0-9]+ |^data \{`), harmless, "details of the error before it"},
	{sxid, "19084 20012", nil, unclear, "an NVSwitch asks for a look at its links"},
	{sxid, "", pattern(`^non-?fatal\b`), harmless, "an error of an NVSwitch that is not fatal"},
	{sxid, "", pattern(`^fatal\b`), broken, "a fatal error of an NVSwitch"},

	{nvrm, "", pattern(`fallen off the bus`), broken, "the GPU has fallen off the bus"},
	{nvrm, "", pattern(`_scrubWaitAndSave: Timed out`), unclear, "the driver gave up clearing freed memory"},

	{ras, "", pattern(`\buncorrectable hardware errors?\b`), broken, "an uncorrectable hardware error"},
	{ras, "", pattern(`\bdeferred hardware errors?\b`), broken, "an uncorrectable hardware error that nothing has read yet"},
	{ras, "", pattern(`\bcorrectable hardware errors?\b`), harmless, "a corrected error"},
	{ras, "", pattern(`accelerator check architecture|\baca( entry)?\[`), harmless, "details of the errors that are counted after it"},
	{ras, "", pattern(`poison.*(consum|reset)`), broken, "poisoned memory was read"},
	{ras, "", pattern(`(bad pages?|RAS records).*(exceed|reach)`), broken, "more pages of its memory are bad than allowed"},
	{ras, "", pattern(`\bring \S+ timeout\b`), broken, "a ring hung"},
	{
		ras, "", pattern(`\bring \S+ reset succeeded\b|\breset end with ret = 0\b|but recovered through reset`), harmless,
		"a reset succeeded",
	},
	{ras, "", pattern(`\breset(\([0-9]+\))? (failed|failure)\b|\breset end with ret = -?[1-9]|recovery failed`), broken, "a reset failed"},
	{ras, "", pattern(`lost from bus|fatal error during GPU init|device wedged, needs recovery`), broken, "the GPU is lost to its driver"},
}

// covers reports whether a row applies to a number.
func (f fault) covers(number string) bool {
	if f.numbers == "" {
		return true
	}
	n, err := strconv.Atoi(number)
	for span := range strings.FieldsSeq(f.numbers) {
		from, to, _ := strings.Cut(span, "-")
		first, _ := strconv.Atoi(from)
		last, isSpan := strconv.Atoi(to)
		if isSpan != nil {
			last = first
		}
		if err == nil && first <= n && n <= last {
			return true
		}
	}
	return false
}

// faultLine is the meaning of a line.
type faultLine struct {
	family   family
	severity severity
	at       string // the PCI address in the line
	number   string // of an Xid or SXid
	text     string // in words, with the line
}

// parseFault parses a line of the kernel's log; ok is false if the line belongs to no family.
func parseFault(line string) (t faultLine, ok bool) {
	for _, f := range families {
		if !f.lines.MatchString(line) {
			continue
		}
		t = faultLine{family: f, severity: unclear, text: f.name + " line that this version of the agent does not know"}
		if m := f.form.FindStringSubmatch(line); m != nil {
			group := func(name string) string {
				if i := f.form.SubexpIndex(name); i >= 0 {
					return m[i]
				}
				return ""
			}
			number, text := group("number"), strings.TrimSpace(group("text"))
			t.at, t.number = group("at"), number
			if number != "" {
				t.text = f.name + " " + number + ", which this version of the agent does not know"
			}
			for _, row := range faults {
				if row.family == f.name && row.covers(number) && (row.text == nil || row.text.MatchString(text)) {
					t.severity, t.text = row.severity, strings.TrimSpace(f.name+" "+number)+", "+row.pattern
					break
				}
			}
		}
		t.text += ": " + taskcatalog.Clean(line, maxQuote)
		return t, true
	}
	return faultLine{}, false
}

// maxQuote is how much of a line is quoted, in bytes.
const maxQuote = 300

// resetFollows is within how many lines after a line without a device amdgpu logs the reset of the
// affected GPU.
const resetFollows = 4

var resetBegins = lazyregexp.New(`amdgpu ([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F.]+): .*GPU reset begin`)

// judgeLog judges the lines that the kernel logged about this GPU since the scrub began.
func judgeLog(u *unit, lines []string) {
	worst := faultLine{}
	for i, line := range lines {
		t, ok := judgeLine(u.device.Vendor, u.facts.PCIAddress, lines, i, line)
		if ok && t.severity > worst.severity {
			worst = t
		}
	}
	switch worst.severity {
	case broken:
		u.worse(taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault, "the kernel logged %s", worst.text)
	case unclear:
		u.worse(taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHardwareFault, "the kernel logged %s", worst.text)
	}
}

// resetSoon reports whether the driver begins to reset the GPU in the next lines.
func resetSoon(lines []string, address string) bool {
	for _, line := range lines[:min(resetFollows, len(lines))] {
		if m := resetBegins.FindStringSubmatch(line); m != nil && sameFunction(m[1], address) {
			return true
		}
	}
	return false
}

// sameFunction compares PCI addresses. Drivers leave out the function, or write the
// domain longer.
func sameFunction(logged, address string) bool {
	logged, address = shortDomain(logged), shortDomain(address)
	return logged == address || strings.HasPrefix(address, logged+".")
}

func shortDomain(address string) string {
	domain, rest, _ := strings.Cut(strings.ToLower(address), ":")
	return strings.TrimLeft(domain, "0") + ":" + rest
}
