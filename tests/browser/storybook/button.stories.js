export default {
  title: 'Garden/Button',
  render: ({ label }) => Object.assign(document.createElement('button'), { textContent: label }),
};

export const Plant = { args: { label: 'Plant a turnip' } };
export const Dig = { args: { label: 'Dig it up' } };
