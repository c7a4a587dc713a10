package taskcatalog

import "time"

var nodeDiagnostics = define[DiagnosticsParams, DiagnosticsResult](Type{
	Name: "node.diagnostics", Version: 1,
	Summary: "collect the agent's journal, kernel GPU lines, facts, slots and ledger state, without secrets; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: 2 * time.Minute,
	Example: `{"since_seconds": 3600}`,
})

// MaxArchive is how large an archive may be, in bytes: it rides with the task's
// result, in base64, and a request has 1 MiB.
const MaxArchive = 512 << 10

// Parts of an archive of diagnostics, in their order. Each is a file of its name.
const (
	DiagnosticsJournal = "journal.txt" // of the agent's units, newest first
	DiagnosticsKernel  = "kernel.txt"  // what the kernel logged about GPUs and their bus
	DiagnosticsFacts   = "facts.json"
	DiagnosticsSlots   = "slots.json"  // versions of the agent on the disk, and its updates
	DiagnosticsLedger  = "ledger.json" // how far tasks came; neither params nor results
)

// DiagnosticsParams says how far the journal is read back.
type DiagnosticsParams struct {
	// SinceSeconds is how old a line of the journal may be; 0: a day.
	SinceSeconds int `json:"since_seconds,omitempty" jsonschema:"minimum=60,maximum=604800"`
}

// DiagnosticsResult says what was collected. The archive itself, a gzipped tar, is
// beside the result in the report to the broker, and Digest is of its bytes: what the
// node signs holds it.
type DiagnosticsResult struct {
	Digest  string            `json:"digest" jsonschema:"maxLength=71"`
	Bytes   int               `json:"bytes"`
	Parts   []DiagnosticsPart `json:"parts" jsonschema:"maxItems=16"`
	Archive []byte            `json:"-"`
}

// DiagnosticsPart is one file of the archive, or why it is not there.
type DiagnosticsPart struct {
	Name     string `json:"name"`
	Bytes    int    `json:"bytes"`
	Redacted int    `json:"redacted"`          // places where something was taken out
	Cut      bool   `json:"cut,omitzero"`      // there was more than fits
	Missing  string `json:"missing,omitempty"` // why it could not be had, or not all of it
}
