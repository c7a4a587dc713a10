package taskcatalog

import "time"

var nodeDiagnostics = define[DiagnosticsParams, DiagnosticsResult](Type{
	Name: "node.diagnostics", Version: 1,
	Summary: "collect the agent's journal, kernel GPU lines, facts, slots and ledger state, without secrets; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: 2 * time.Minute,
	Example: `{"since_seconds": 3600}`,
})

// MaxArchive is the greatest size of an archive, in bytes. The archive travels in base64 with the
// task's result, and the limit of a request is 1 MiB.
const MaxArchive = 512 << 10

// Parts of a diagnostics archive, in their order. The name of a part is its file name.
const (
	DiagnosticsJournal = "journal.txt" // of the agent's units, newest first
	DiagnosticsKernel  = "kernel.txt"  // what the kernel logged about GPUs and their bus
	DiagnosticsFacts   = "facts.json"
	DiagnosticsSlots   = "slots.json"  // versions of the agent on the disk, and updates of the agent
	DiagnosticsLedger  = "ledger.json" // progress of tasks; neither params nor results
)

// DiagnosticsParams limits how far back the journal is read.
type DiagnosticsParams struct {
	// SinceSeconds is the greatest age of a journal line; 0: a day.
	SinceSeconds int `json:"since_seconds,omitzero" jsonschema:"minimum=60,maximum=604800"`
}

// DiagnosticsResult says what was collected. The archive, a gzipped tar, travels beside the result
// in the report to the broker. Digest is the digest of the archive's bytes, so the node's signature
// covers the archive.
type DiagnosticsResult struct {
	Digest  string            `json:"digest" jsonschema:"maxLength=71"`
	Bytes   int               `json:"bytes"`
	Parts   []DiagnosticsPart `json:"parts" jsonschema:"maxItems=16"`
	Archive []byte            `json:"-"`
}

// DiagnosticsPart is one file of the archive, or the reason why the file is missing.
type DiagnosticsPart struct {
	Name     string `json:"name"`
	Bytes    int    `json:"bytes"`
	Redacted int    `json:"redacted"`          // number of removed passages
	Cut      bool   `json:"cut,omitzero"`      // the part was longer than the limit
	Missing  string `json:"missing,omitempty"` // why the part is missing or incomplete
}
