package maassim

import "net/http"

var metadata = map[string]func(*call) answer{}

func (r *Region) serveMetadata(w http.ResponseWriter, req *http.Request, do func(*call) answer) {}
