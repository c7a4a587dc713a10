package relay

// Has reports whether this relay has a session.
func (r *Relay) Has(id string) bool {
	_, err := r.session(id)
	return err == nil
}

// Holds is how many sessions this relay has.
func (r *Relay) Holds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

// LetGo lets go of a session that another relay has taken, without closing it, and says
// whether it had it.
func (r *Relay) LetGo(id string) bool {
	s, err := r.session(id)
	return err == nil && s.do(func() {
		s.finish("terminal_moved", "another relay has taken the session")
		s.end.lasts = true
	})
}
