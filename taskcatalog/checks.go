package taskcatalog

// Treatment says what the system does about one kind of residue.
type Treatment string

// The treatments.
const (
	Cleaned     Treatment = "cleaned"       // removed by CleanedBy, then verified
	FoundOnly   Treatment = "found"         // reported, never mended: next action reimage
	NotLookedAt Treatment = "not_looked_at" // outside what software on the node can see
)

// CheckRow is one line of the table that says what is cleaned, what is only
// found, and what is not looked at.
type CheckRow struct {
	Name      string    `json:"name"`
	Covers    string    `json:"covers"`
	Treatment Treatment `json:"treatment"`
	CleanedBy string    `json:"cleaned_by,omitempty"` // a task type
}

// Checks returns the table.
func Checks() []CheckRow { return append([]CheckRow(nil), checks...) }

var checks = []CheckRow{}
