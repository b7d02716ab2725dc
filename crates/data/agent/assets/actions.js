// actions
