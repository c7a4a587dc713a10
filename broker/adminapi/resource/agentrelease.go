package resource

import "time"

// AgentRelease is one agent package, kept by digest.
type AgentRelease struct {
	Digest     string    `json:"digest" doc:"sha256:HEX of the package"`
	Version    string    `json:"version"`
	Arch       string    `json:"arch"`
	Filename   string    `json:"filename"`
	Size       int64     `json:"size" doc:"bytes"`
	UploadedAt time.Time `json:"uploaded_at"`
	UploadedBy string    `json:"uploaded_by"`
	URL        string    `json:"url" doc:"where nodes fetch it"`
}

// AgentReleaseList lists releases, newest first.
type AgentReleaseList struct {
	Standing
	Items []AgentRelease `json:"items"`
}
