CREATE INDEX chain_holds_now ON chain_holds (id) WHERE until_at = 0;
